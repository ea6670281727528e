"""Accelerate reads the loader as it is, and is told where an epoch ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.data import DataLoader

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

accelerate = pytest.importorskip("accelerate", reason="needs the extra 'frameworks'")

MakeLoader = Callable[..., DataLoader]
BatchesOf = Callable[..., list[list[int]]]
Note = Callable[[dict[str, Any]], list[int]]


def test_prepare_gives_the_loader_back_and_epochs_count_from_0(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note
) -> None:
    loader = accelerate.Accelerator(cpu=True).prepare(make_loader())
    assert [note(batch) for _ in range(3) for batch in loader] == batches_of(0, 1, 2)


def test_an_accumulation_ends_at_the_last_batch(make_loader: MakeLoader) -> None:
    import torch

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    model, loader = accelerator.prepare(torch.nn.Linear(4, 1), make_loader())
    synchronized = []
    for _ in range(2):
        for _ in loader:
            with accelerator.accumulate(model):
                synchronized.append(accelerator.sync_gradients)
    assert synchronized == 2 * [False, False, True, False, False, True, True]


def test_a_state_of_accelerate_resumes_the_loader(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note, tmp_path: Path
) -> None:
    before, after = make_loader(), make_loader(name="resumed")
    for loader in (before, after):
        accelerator = accelerate.Accelerator(cpu=True)
        accelerator.register_for_checkpointing(loader)
        if loader is before:
            batches = iter(loader)
            for _ in range(3):
                next(batches)
            accelerator.save_state(str(tmp_path / "state"))
            accelerator.free_memory()
            accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        else:
            accelerator.load_state(str(tmp_path / "state"))
    assert [note(batch) for _ in range(2) for batch in after] == batches_of(0, 1)[3:]


def test_skipping_batches_names_the_way_to_resume(make_loader: MakeLoader) -> None:
    accelerate.Accelerator(cpu=True)
    with pytest.raises(Exception, match=r"give it to load_state_dict\(\)"):
        list(accelerate.skip_first_batches(make_loader(), 3))


def test_ranks_that_train_apart_are_warned(make_loader: MakeLoader) -> None:
    loader = make_loader(rank=0, world_size=2)
    accelerate.Accelerator(cpu=True)
    with pytest.warns(UserWarning, match=r"2 ranks .* Accelerator\(cpu=True\)"):
        next(iter(loader))


GATHERS = """
import sys
from accelerate import Accelerator
from launcher.data import DataLoader

accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(sys.argv[1], 8, shuffle=True, tensors=True))
seen = []
for batch in loader:
    seen += accelerator.gather_for_metrics(batch["index"]).tolist()
assert sorted(seen) == list(range(51)), seen
accelerator.end_training()
"""


def test_gathered_samples_are_each_there_once_without_pads(
    make_loader: MakeLoader, tmp_path: Path
) -> None:
    """51 samples on two ranks: the last step pads one, which Accelerate cuts off."""
    reference = make_loader("odd_set").dataset.name
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", GATHERS, reference],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=540)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors

"""The loader in a plain process: arguments, epochs, state, and what it leaves alone."""

from __future__ import annotations

import gc
import logging
import random
import weakref
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from loader_arguments import loader_arguments
from programs import PIPELINE

from launcher.data import DataLoader
from launcher.data.order import Datasets
from launcher.data.repeatable import preserve_random_states, seed_everything
from launcher.errors import DataError
from launcher.shared import parse_event

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")


@pytest.fixture(autouse=True)
def module(write_module: Callable[[str], str]) -> str:
    return write_module(PIPELINE)


def loader(module: str, **arguments: object) -> DataLoader:
    options = {"batch_size": 8, "shuffle": True, "tensors": False, **arguments}
    return DataLoader(f"{module}:train_set", **loader_arguments(**options))  # type: ignore[arg-type]


def labels(batches: object) -> list[list[int]]:
    return [batch["label"].tolist() for batch in batches]  # type: ignore[attr-defined]


def test_every_for_is_the_next_epoch(module: str) -> None:
    reading = loader(module)
    first, second = labels(reading), labels(reading)
    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(103))
    reading.set_epoch(0)
    assert labels(reading) == first


def test_the_length_is_the_number_of_steps(module: str) -> None:
    assert len(loader(module)) == 13
    assert len(loader(module, drop_last=True)) == 12
    assert len(loader(module, rank=1, world_size=4)) == 4


def test_a_loader_that_is_let_go_of_ends_at_once(module: str) -> None:
    """No collector of cycles has to find it: until then it would count as reading."""
    reading = loader(module)
    list(reading)
    gone = weakref.ref(reading)
    gc.disable()
    try:
        del reading
        assert gone() is None
    finally:
        gc.enable()


def test_ranks_share_an_epoch(module: str) -> None:
    shares = [labels(loader(module, rank=rank, world_size=2, uneven="drop")) for rank in (0, 1)]
    together = list(chain(*chain(*shares)))
    assert len(shares[0]) == len(shares[1])
    assert len(set(together)) == len(together) == 102


def test_an_augmented_sample_depends_on_seed_epoch_and_position_alone(module: str) -> None:
    def images(**arguments: object) -> list[bytes]:
        return [batch["image"].tobytes() for batch in loader(module, **arguments)]

    assert images() == images()
    assert images(seed=1) != images()


def test_the_random_states_of_the_script_are_left_alone(module: str) -> None:
    random.seed(5)
    np.random.seed(5)
    undisturbed = (random.random(), np.random.rand())
    random.seed(5)
    np.random.seed(5)
    list(loader(module))
    assert (random.random(), np.random.rand()) == undisturbed


def test_what_a_dataset_draws_while_it_is_made_is_the_same_each_time(
    module: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    source = "import random, numpy, torch\ndef train_set():\n    return [random.random(), "
    drawing = f"{module}_drawing"
    (tmp_path / f"{drawing}.py").write_text(f"{source}numpy.random.rand(), float(torch.rand(()))]")
    made = []
    for seed in (1, 2):
        with preserve_random_states():
            seed_everything(seed)
            made.append(Datasets()[f"{drawing}:train_set"])
            after = random.random(), np.random.rand()
            seed_everything(seed)
            assert after == (random.random(), np.random.rand())
    assert made[0] == made[1]


def test_the_torch_state_of_the_script_is_left_alone(module: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    undisturbed = torch.rand(3)
    torch.manual_seed(5)
    list(loader(module))
    assert torch.equal(torch.rand(3), undisturbed)


def test_tensors_come_when_torch_is_there(module: str) -> None:
    torch = pytest.importorskip("torch")
    batch = next(iter(loader(module, tensors=None)))
    assert isinstance(batch["image"], torch.Tensor)
    assert batch["label"].dtype == torch.int64


def test_the_state_after_a_break_is_where_the_loop_was_left(module: str) -> None:
    reading = loader(module)
    whole = labels(loader(module))
    for step, _ in enumerate(reading, 1):
        if step == 4:
            break
    resumed = loader(module)
    resumed.load_state_dict(reading.state_dict())
    assert labels(resumed) == whole[4:]


def test_the_state_at_the_end_of_an_epoch_is_the_start_of_the_next(module: str) -> None:
    reading = loader(module)
    list(reading)
    resumed = loader(module)
    resumed.load_state_dict(reading.state_dict())
    assert labels(resumed) == labels(reading)


def test_a_state_of_other_samples_is_refused(module: str) -> None:
    state = loader(module, seed=1).state_dict()
    with pytest.raises(DataError, match=r"seed=1, and this loader has seed=0"):
        loader(module).load_state_dict(state)
    with pytest.raises(DataError, match="not a state of this loader"):
        loader(module).load_state_dict({})


def test_a_newer_iteration_ends_the_one_before(module: str) -> None:
    reading = loader(module)
    older = iter(reading)
    next(older)
    newer = iter(reading)
    next(newer)
    with pytest.raises(DataError, match=r"this iteration over .* has ended, because a newer one"):
        next(older)
    assert len(list(newer)) == 12


def test_each_epoch_leaves_a_line_with_its_wait(
    module: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    list(loader(module))
    events = filter(None, map(parse_event, caplog.messages))
    assert capfd.readouterr().err == ""  # outside a job, a script asks for it by logging
    # An epoch that takes long, as on a busy machine, leaves lines of its progress too.
    (fields,) = [fields for name, fields in events if name == "data_epoch"]
    assert (fields["steps"], fields["samples"], fields["epoch"]) == (13, 103, 0)
    assert fields["batch_size"] == 8  # 103 samples in 13 batches: the last is short
    assert 0 < fields["wait_seconds"] <= fields["total_seconds"]


def test_an_iterator_that_waits_for_workers_of_its_machine_is_refused() -> None:
    """By the name of its class, as mosaicml-streaming has it."""

    class StreamingDataset:
        __module__ = "streaming.base.dataset"

        def __iter__(self) -> object:
            raise AssertionError("it would hang")

    with pytest.raises(DataError, match=r"whose iterator waits at barriers.*reads it by index"):
        DataLoader(StreamingDataset())

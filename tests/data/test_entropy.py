"""Generators that dataset code makes without a seed get one from ours, and nothing else does."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import secrets
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from launcher.data import DataLoader, LoaderOptions
from launcher.data.batches import class_names, disassemble
from launcher.data.order import BatchContent
from launcher.data.repeatable import (
    EntropyStream,
    active_stream,
    preserve_random_states,
    seed_everything,
    seeding,
)
from launcher.shared import system_entropy

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

torch = pytest.importorskip("torch")
entropy_datasets = pytest.importorskip("entropy_datasets")

NAMES = [kind.__name__ for kind in entropy_datasets.ALL]


Prepare = Callable[[dict[str, object], int], list[dict[str, Any]]]


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_the_same_in_every_process_and_in_any_order(prepare: Prepare, name: str) -> None:
    one, other = prepare(stream(name), 4)
    assert one == other
    if name == "OrderOfSet":  # which differs where PYTHONHASHSEED does
        return
    batches = list(DataLoader(f"entropy_datasets:{name}", batch_size=2, tensors=False))
    content = [vars(BatchContent.take(*disassemble(batch), samples=2)) for batch in batches]
    assert json.loads(json.dumps(content)) == [*one.values()]
    drawn = np.concatenate(batches).reshape(8, -1)
    assert [len({*column}) for column in drawn.T] == [8] * drawn.shape[1]


def stream(name: str) -> dict[str, object]:
    return {"name": name, "dataset": f"entropy_datasets:{name}", "batch_size": 2}


@pytest.mark.parametrize("name", ["Kept", "KeptUnseeded", "KeptCopies"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_draws_the_same_from_what_the_dataset_keeps(name: str, workers: int) -> None:
    whole = list(map(float, DataLoader(f"entropy_datasets:{name}")))
    loader = DataLoader(f"entropy_datasets:{name}", workers=workers)
    for _ in zip(range(3), loader, strict=False):
        pass
    rest = DataLoader(f"entropy_datasets:{name}", workers=workers)
    rest.load_state_dict(loader.state_dict())
    assert list(map(float, rest)) == whole[3:]


def test_an_object_of_the_script_is_read_alike_after_any_batches() -> None:
    read = [list(map(float, DataLoader(entropy_datasets.Kept()))) for _ in range(2)]
    assert read[0] == read[1]
    loader = DataLoader(entropy_datasets.Kept())
    for _, batch in zip(range(3), loader, strict=False):
        assert batch.shape == (1,)
    rest = DataLoader(entropy_datasets.Kept())
    rest.load_state_dict(loader.state_dict())
    assert list(map(float, rest)) == read[0][3:]


#: A module whose generators are imported, held by an object, a class and by the module itself.
PIPELINE = """
from types import SimpleNamespace
from numpy.random import default_rng
import {helper}

NUMPY = default_rng()
HOLDER = SimpleNamespace(numpy=default_rng(3))

class Numbers:
    numpy = default_rng(7)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return float({draw}.random())
"""


def first_and_rest(make: Callable[[], object]) -> tuple[list[float], list[float]]:
    """The first six numbers of a dataset, and those after three as a resumed run has them."""
    loader = DataLoader(make(), options=LoaderOptions(verify=0))
    first = [batch.item() for batch in itertools.islice(loader, 6)]
    assert len([*itertools.islice(loader, 3)]) == 3
    loader.set_epoch(0)
    steps = iter(loader)
    for _ in range(3):
        next(steps)
    rest = DataLoader(make(), options=LoaderOptions(verify=0))
    rest.load_state_dict(loader.state_dict())
    return first, [batch.item() for batch in itertools.islice(rest, 3)]


@pytest.mark.parametrize("as_object", [False, True], ids=["by name", "as an object"])
@pytest.mark.parametrize(
    "draw", ["NUMPY", "HOLDER.numpy", "self.numpy", "{helper}.NUMPY"], ids=str.lower
)
def test_no_sample_follows_from_what_a_generator_gave_before(
    draw: str,
    as_object: bool,
    write_module: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though the script has imported the modules, as it does for an object."""
    helper = write_module("import numpy\nNUMPY = numpy.random.default_rng(5)\n")
    name = write_module(PIPELINE.replace("{draw}", draw).replace("{helper}", helper))
    monkeypatch.setattr(class_names, "_script_folder", lambda: str(tmp_path))
    module = importlib.import_module(name)
    first, rest = first_and_rest(lambda: module.Numbers() if as_object else f"{name}:Numbers")
    assert first[3:] == rest
    assert len({*first}) == 6


def test_a_generator_that_a_module_has_been_given_since_is_found(
    write_module: Callable[[str], str],
) -> None:
    """As when a notebook defines one in a later cell, or loads a module again."""
    name = write_module(PIPELINE.replace("{draw}", "NUMPY").replace("{helper}", "random"))
    assert len(list(DataLoader(f"{name}:Numbers"))) == 6
    sys.modules[name].NUMPY = np.random.default_rng(9)
    first, rest = first_and_rest(lambda: f"{name}:Numbers")
    assert first[3:] == rest


class Transformed:
    """Many samples, and a generator that is held by what it holds."""

    def __init__(self) -> None:
        self.samples = [(str(index), index) for index in range(120_000)]
        inner = SimpleNamespace(python=random.Random())
        self.transform = SimpleNamespace(random=random.random, inner=inner)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> float:
        return float(self.transform.inner.python.random())


def test_generators_beside_a_long_list_of_samples_are_found() -> None:
    first, rest = first_and_rest(Transformed)
    assert first[3:] == rest


def test_generators_of_an_object_are_left_to_the_script_as_they_were() -> None:
    dataset, twin = (entropy_datasets.KeptSeeded() for _ in range(2))
    assert len(list(DataLoader(dataset))) == 8
    assert dataset.draw() == twin.draw()


def test_a_generator_that_each_sample_seeds_is_kept_once() -> None:
    loader = DataLoader("entropy_datasets:Reseeding", options=LoaderOptions(verify=0))
    assert len(list(loader)) == 8
    loaded, kept = entropy_datasets.Reseeding.loaded, len(seeding.kept_generators.states())
    assert len(list(loader)) == 8
    assert entropy_datasets.Reseeding.loaded == loaded + 8
    assert len(seeding.kept_generators.states()) <= kept


def test_an_object_in_many_loaders_has_its_generators_kept_once() -> None:
    dataset = entropy_datasets.Kept()
    for _ in range(3):
        assert len(list(DataLoader(dataset))) == 8
    kept = [each.generator for each, _ in seeding.kept_generators.states()]
    own = [dataset.python, dataset.torch, dataset.numpy.bit_generator]
    assert [sum(one is other for other in kept) for one in own] == [1, 1, 1]


def test_epochs_and_seeds_draw_different_numbers() -> None:
    loaders = [DataLoader("entropy_datasets:Kept", seed=seed) for seed in (0, 1)]
    epochs = [tuple(map(float, loader)) for loader in loaders for _ in range(2)]
    assert len({value for epoch in epochs for value in epoch}) == 32


def system_draws() -> list[object]:
    """What the script's own code draws without a seed."""
    generator = torch.Generator()
    own = np.random.default_rng(), random.Random(), np.random.RandomState()
    return [
        *(own[0].random(), own[1].random(), own[2].random_sample()),
        *(np.random.SeedSequence().entropy, random.SystemRandom().random(), generator.seed()),
    ]


def test_the_script_between_two_batches_draws_from_the_system() -> None:
    runs = []
    for _ in range(2):
        drawn = []
        for _ in DataLoader("entropy_datasets:Numpy"):
            assert active_stream() is None
            drawn += system_draws()
        with ThreadPoolExecutor(1) as pool:
            drawn += pool.submit(system_draws).result()
        runs.append(drawn)
    assert len({*runs[0], *runs[1]}) == 2 * 9 * 6


def test_another_thread_of_the_process_draws_from_the_system() -> None:
    drawn: list[list[object]] = []
    threads = [threading.Thread(target=lambda: drawn.append(system_draws())) for _ in range(2)]
    begun = threading.Event()

    class Waiting:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            begun.set()
            for thread in threads:
                thread.join()
            return index

    def start() -> None:
        begun.wait()
        for thread in threads:
            thread.start()

    outside = threading.Thread(target=start)
    outside.start()
    # The threads are started outside of the dataset's code, and draw while it runs.
    for thread in threads:
        assert not thread.is_alive()
    begun.set()
    outside.join()
    list(DataLoader(Waiting()))
    assert len({value for each in drawn for value in each}) == 12


NAMING = {
    "os.urandom": lambda: os.urandom(8),
    "os.getrandom": lambda: os.getrandom(8),
    "secrets": lambda: secrets.token_hex(8),
    "secrets.choice": lambda: tuple(secrets.choice(range(1000)) for _ in range(8)),
    "uuid4": uuid.uuid4,
    "tempfile": lambda: next(tempfile._RandomNameSequence()),  # type: ignore[attr-defined]
    "our own": lambda: system_entropy.token_hex(8),
}


@pytest.mark.parametrize("draw", NAMING.values(), ids=NAMING)
def test_names_and_keys_stay_the_systems(draw: Any) -> None:
    drawn = set()
    for _ in range(2):
        with preserve_random_states():
            seed_everything(1)
            drawn.add(draw())
    assert len(drawn) == 2


def test_system_entropy_is_seeded_for_the_dataset_that_asks_alone() -> None:
    def read(name: str) -> list[float]:
        return list(map(float, DataLoader(f"entropy_datasets:{name}")))

    assert read("Keys") == read("Keys")
    assert len(read("Numpy")) == 8
    with preserve_random_states():
        seed_everything(1)
        drawn = {draw() for draw in NAMING.values()}
        seed_everything(1)
        assert not drawn & {draw() for draw in NAMING.values()}


def test_a_function_may_ask_for_system_entropy_in_place_of_its_dataset() -> None:
    function = entropy_datasets.keys_of_a_function
    function.seed_system_entropy = True
    try:
        loader = DataLoader("entropy_datasets:keys_of_a_function")
        assert len(list(loader)) == 8
        assert loader._source._datasets[function.__module__ + ":" + function.__name__]
    finally:
        del function.seed_system_entropy


@pytest.mark.parametrize("where", ["constructor", "first sample"])
def test_a_module_that_is_imported_changes_no_numbers_but_its_own(where: str) -> None:
    """The first read imports it, as a process does that takes a shard over; the second has it."""
    read, constants = [], []
    for _ in range(2):
        sys.modules.pop("draws_when_imported", None)
        for _ in range(2):
            loader = DataLoader(
                "entropy_datasets:StreamOfNumbers", dataset_args={"where": where}, shards=1
            )
            read.append(list(map(float, loader)))
        constants.append(sys.modules["draws_when_imported"].OWN)
    assert read[1:] == read[:1] * 3
    assert len(set(read[0])) == 4
    assert constants[0] == constants[1]


class ImportsBeside:
    """A thread imports a module that waits until the sample has drawn some of its numbers."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> list[float]:
        gates: Any = sys.modules["gates"]
        thread = threading.Thread(target=importlib.import_module, args=("waits_for_gates",))
        thread.start()
        gates.entered.wait()
        numbers = [random.random(), float(np.random.random()), torch.rand(()).item()]
        gates.go.set()
        thread.join()
        return [*numbers, random.random(), float(np.random.random()), torch.rand(()).item()]


def test_an_import_in_another_thread_takes_no_number_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waits_for_gates.py").write_text(
        "import gates\ngates.entered.set()\ngates.go.wait()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    gates = SimpleNamespace(entered=threading.Event(), go=threading.Event())
    monkeypatch.setitem(sys.modules, "gates", gates)  # type: ignore[arg-type] # it serves as one
    (batch,) = DataLoader(ImportsBeside(), options=LoaderOptions(verify=0))
    del sys.modules["waits_for_gates"]
    assert len({part.item() for part in batch}) == 6


def test_a_failed_import_has_no_frames_of_ours() -> None:
    with preserve_random_states():
        seed_everything(1)
        with pytest.raises(ImportError) as failed:
            import launcher.data.no_such_module  # noqa: F401
    assert [entry.path for entry in failed.traceback] == [Path(__file__)]


def test_streams_of_threads_differ_and_follow_the_seed() -> None:
    top = EntropyStream()
    top.reseed(1)
    below = [top.start(b"thread") for _ in range(2)]
    first = [stream.draw(8) for stream in (top, *below)]
    assert len(set(first)) == 3
    assert [stream.draw(8) for stream in (top, *below)] != first
    top.reseed(1)
    assert [stream.draw(8) for stream in (top, *below)] == first
    top.reseed(2)
    assert not {*first} & {stream.draw(8) for stream in (top, *below)}


def test_a_thread_that_runs_on_shares_no_numbers_with_later_ones() -> None:
    top = EntropyStream()
    top.reseed(1)
    assert not top.keep_started()
    lasting = top.start(b"thread")
    assert top.keep_started()
    top.reseed(1)
    assert top.start(b"thread").draw(8) != lasting.draw(8)
    assert not top.keep_started()


def test_numbers_of_a_stream_are_frozen_for_all_time() -> None:
    """The same augmentation under every version of this package."""
    stream = EntropyStream()
    stream.reseed(2**64 - 7)
    assert stream.draw_int(53) == 3106357117626624
    assert stream.start(b"thread").draw(4).hex() == "a47adf5e"

"""What the loader's arguments do, in this process; the service gives the same (test_data_jobs)."""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import os
import random
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_arguments import loader_arguments
from modes import MODES_PIPELINE
from waiting import PATIENCE

from launcher.data import DataLoader, LoaderOptions
from launcher.data.order import StreamSpec, sampled
from launcher.errors import DataError, SampleError
from launcher.shared import parse_event

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

Make = Callable[..., DataLoader]


@pytest.fixture
def make(write_module: Callable[[str], str]) -> Make:
    """Makes loaders of the datasets in a module."""
    module = write_module(MODES_PIPELINE)

    def make(dataset: str = "train_set", **arguments: Any) -> DataLoader:
        for name in ("sampler", "batch_sampler", "collate_fn"):
            if name in arguments:
                arguments[name] = f"{module}:{arguments[name]}"
        return DataLoader(
            f"{module}:{dataset}", **loader_arguments(**{"tensors": False, **arguments})
        )

    return make


def ids(batches: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


@pytest.fixture
def epochs_read(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    caplog.set_level(logging.INFO)

    def read() -> list[dict[str, Any]]:
        parsed = [parse_event(line) for line in caplog.messages]
        caplog.clear()
        return [fields for name, fields in filter(None, parsed) if name == "data_epoch"]

    return read


_KEEPS_ITS_ITERATOR = """
import builtins, logging
from launcher.data import DataLoader

class Samples:
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return {"id": index}

logging.basicConfig(level=logging.INFO, format="%(message)s")
numbers = Samples()
batches = builtins.kept = iter(DataLoader(numbers, batch_size=4, tensors=False))
next(batches), next(batches)
"""


def test_a_pass_that_the_script_still_holds_at_its_end_is_logged(tmp_path: Path) -> None:
    script = tmp_path / "keeps.py"
    script.write_text(_KEEPS_ITS_ITERATOR)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    parsed = (parse_event(line) for line in done.stderr.splitlines())
    (read,) = [fields for name, fields in filter(None, parsed) if name == "data_epoch"]
    assert (read["steps"], read["samples"]) == (2, 8)


# Samples and batches -------------------------------------------------------------------------


def test_samples_one_by_one_are_as_the_dataset_gives_them(make: Make) -> None:
    samples = list(make(batch_size=None, shuffle=True))
    assert sorted(sample["id"] for sample in samples) == list(range(37))
    assert {type(sample["id"]) for sample in samples} == {int}
    assert {type(sample["share"]) for sample in samples} == {float}
    assert samples[0]["x"].shape == (3,)
    assert len(make(batch_size=None, world_size=4, rank=0)) == 10


def test_one_by_one_or_in_batches_a_sample_is_the_same(make: Make) -> None:
    batched = np.concatenate([batch["x"] for batch in make(batch_size=5, shuffle=True)])
    single = np.stack([sample["x"] for sample in make(batch_size=None, shuffle=True)])
    assert batched.tobytes() == single.tobytes()


def test_arrays_of_single_samples_become_tensors_too(make: Make) -> None:
    torch = pytest.importorskip("torch")
    sample = next(iter(make(batch_size=None, tensors=None)))
    assert isinstance(sample["x"], torch.Tensor)
    assert type(sample["id"]) is int


def test_a_collate_fn_makes_the_batch_and_may_draw_random_numbers(make: Make) -> None:
    def read() -> list[tuple[bytes, Any, Any, float]]:
        return [(x.tobytes(), *rest) for x, *rest in make(batch_size=4, collate_fn="mixed")]

    first = read()
    random.seed(1)
    np.random.seed(1)
    assert read() == first
    assert first[0][1] == (0, 1, 2, 3)
    assert len({weight for *_, weight in first}) == len(first)


def test_a_sampler_gives_the_order_and_the_length_of_each_epoch(make: Make) -> None:
    loader = make(batch_size=4, sampler="balanced", seed=3)
    lengths = []
    for _ in range(3):
        lengths.append(len(loader))
        batches = ids(loader)
        assert len(batches) == lengths[-1]
    assert lengths == [19, 18, 18]  # of 73, 72 and 71 samples
    assert len(loader) == 18


def test_a_batch_sampler_gives_whole_batches_which_ranks_take_in_turn(make: Make) -> None:
    whole = ids(make(batch_sampler="buckets"))
    assert whole[:2] == [[0], [5]]
    second = make(batch_sampler="buckets")
    second.set_epoch(1)
    whole = ids(second)
    assert whole[:2] == [[1, 2], [6, 7]]
    shares = []
    for rank in range(2):
        loader = make(batch_sampler="buckets", rank=rank, world_size=2)
        loader.set_epoch(1)
        shares.append(ids(loader))
    assert [batch for pair in zip(*shares, strict=True) for batch in pair] == whole


@pytest.mark.parametrize("kind", ["sampler", "batch_sampler"])
def test_a_sampler_with_a_generator_of_its_own_is_pure_in_process_too(
    make: Make, kind: str
) -> None:
    """It would shuffle on, if the generator in its module were not seeded for each call."""
    name = "shuffled_on" if kind == "sampler" else "buckets_shuffled_on"
    orders = [ids(make(rank=1, world_size=2, **{kind: name})) for _ in range(2)]
    assert orders[0] == orders[1]


def test_a_pure_sampler_is_called_a_second_time_but_once(make: Make) -> None:
    loader = make(batch_size=4, sampler="balanced_and_counted", epochs=3)
    for _ in range(3):
        list(loader)
    counted = sys.modules[loader.state_dict()["dataset"].partition(":")[0]].calls
    assert counted == [0, 0, 1, 2]


def test_torchs_own_samplers_will_do(write_module: Callable[[str], str]) -> None:
    pytest.importorskip("torch")
    module = write_module(
        "from torch.utils.data import BatchSampler, WeightedRandomSampler\n"
        "def weighted(length, epoch, seed):\n"
        "    return WeightedRandomSampler(range(1, length + 1), 3 * length)\n"
        "def batched(length, epoch, seed):\n"
        "    return BatchSampler(weighted(length, epoch, seed), 4, drop_last=False)\n"
    )
    spec = StreamSpec(name="s", dataset="p:set", sampler=f"{module}:weighted")
    assert len(sampled(spec, 0, 10)) == 30
    spec = StreamSpec(name="s", dataset="p:set", batch_sampler=f"{module}:batched")
    order = sampled(spec, 0, 10)
    assert len(order) == 8
    assert len(order.ids) == 30
    assert set(order.ids.tolist()) <= set(range(10))


def test_pads_of_a_batch_sampler_are_counted_in_samples(
    make: Make, epochs_read: Callable[[], list[dict[str, Any]]]
) -> None:
    loader = make(batch_sampler="buckets", rank=2, world_size=3)
    loader.set_epoch(1)
    list(loader)
    (epoch,) = epochs_read()  # eight batches: the ninth is the first again, of two samples
    assert (epoch["steps"], epoch["pads"], epoch["drops"]) == (3, 2, 0)


def test_a_dataset_that_reads_batches_is_asked_for_batches(make: Make) -> None:
    first = [batch["x"].tobytes() for batch in make("at_once_set", batch_size=4)]
    assert first == [batch["x"].tobytes() for batch in make("at_once_set", batch_size=4)]
    assert len(set(first)) == 10
    with pytest.raises(SampleError, match="batches only"):
        list(make("at_once_set", batch_size=None))


def test_a_subset_seeds_each_sample_unless_its_dataset_reads_batches(
    write_module: Callable[[str], str],
) -> None:
    pytest.importorskip("torch")
    name = write_module(
        MODES_PIPELINE + "from torch.utils.data import StackDataset, Subset\n"
        "def half():\n    return Subset(Set(), range(20))\n"
        "def stacked():\n    return StackDataset(part=Subset(Set(), range(20)))\n"
        "def half_at_once():\n    return Subset(StackDataset(AtOnce()), range(20))\n"
    )

    def noise(dataset: str, size: int) -> bytes:
        batches = DataLoader(f"{name}:{dataset}", size, tensors=False)
        return b"".join(batch.get("part", batch)["x"].tobytes() for batch in batches)

    assert noise("half", 4) == noise("half", 2) == noise("stacked", 4) == noise("stacked", 2)
    assert len(list(DataLoader(f"{name}:half_at_once", 4))) == 5


def test_too_few_samples_at_once_are_an_error() -> None:
    class Few(list[int]):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [0]

    with pytest.raises(DataError, match="returned 1 samples for 3 indices"):
        list(DataLoader(Few(range(9)), 3))


# Samples that raise --------------------------------------------------------------------------


def test_skipped_samples_are_left_out_and_counted(
    make: Make, epochs_read: Callable[[], list[dict[str, Any]]]
) -> None:
    batches = ids(make("broken_set", batch_size=4, on_error="skip"))
    assert len(batches) == 10
    assert batches[1] == [4, 5, 6]
    assert [i for batch in batches for i in batch] == [i for i in range(37) if i % 10 != 7]
    (epoch,) = epochs_read()
    assert (epoch["skipped"], epoch["first_skipped"]) == (3, [7, 17, 27])
    assert (epoch["steps"], epoch["samples"]) == (10, 34)
    assert "ValueError: sample 7 is damaged" in epoch["first_traceback"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_of_which_nothing_is_left_is_left_out(
    make: Make, workers: int, epochs_read: Callable[[], list[dict[str, Any]]]
) -> None:
    loader = make("broken_set", batch_size=1, on_error="skip", workers=workers)
    assert ids(loader) == [[i] for i in range(37) if i % 10 != 7]
    assert loader.state_dict()["epoch"] == 1
    (epoch,) = epochs_read()
    assert (epoch["skipped"], epoch["samples"], epoch["steps"]) == (3, 34, 37)
    assert "repeated" not in epoch


@pytest.mark.parametrize("shuffle", [False, True])
def test_several_ranks_take_a_following_sample_in_its_place(
    make: Make, shuffle: bool, epochs_read: Callable[[], list[dict[str, Any]]]
) -> None:
    """Each rank takes as many steps as the others, and no sample of the epoch is missed."""
    options = {"batch_size": 1, "on_error": "skip", "shuffle": shuffle, "world_size": 2}
    reads = [ids(make("broken_set", rank=rank, **options)) for rank in (0, 1)]
    assert [len(each) for each in reads] == [19, 19]
    good = {i for i in range(37) if i % 10 != 7}
    assert {i for batches in reads for batch in batches for i in batch} == good
    if not shuffle:  # rank 1 reads 7, 17 and 27, in whose place are 8, 18 and 28
        assert [i for (i,) in reads[1]][3] == 8
    counts = epochs_read()
    skipped, repeated = (sum(each.get(n, 0) for each in counts) for n in ("skipped", "repeated"))
    assert skipped == repeated >= 3
    assert [each["samples"] for each in counts] == [19, 19]


@pytest.mark.parametrize("world", [1, 2])
def test_an_epoch_of_which_nothing_is_left_raises(make: Make, world: int) -> None:
    loader = make("all_broken", batch_size=1, on_error="skip", rank=0, world_size=world)
    with pytest.raises(SampleError, match=r"all \d+ samples of .* raised") as caught:
        list(loader)
    assert "all are damaged" in caught.value.remote_traceback


# Iterating -----------------------------------------------------------------------------------


def test_an_endless_stream_is_the_epochs_one_after_another(make: Make) -> None:
    loader = make(batch_size=10, shuffle=True)
    stream = itertools.chain.from_iterable(itertools.repeat(loader))
    taken = ids(itertools.islice(stream, 10))
    assert [len(batch) for batch in taken] == [10, 10, 10, 7, 10, 10, 10, 7, 10, 10]
    resumed = make(batch_size=10, shuffle=True)
    resumed.load_state_dict(loader.state_dict())
    assert ids(resumed) == ids(itertools.islice(stream, 2))


def test_the_epoch_that_a_state_is_of_may_be_set_as_scripts_do(make: Make) -> None:
    whole = ids(make(batch_size=5))
    loader = make(batch_size=5)
    batches = iter(loader)
    next(batches)
    resumed = make(batch_size=5)
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(0)  # the epoch to go on in
    assert ids(resumed) == whole[1:]
    resumed.set_epoch(0)  # read to its end, and wanted again
    assert ids(resumed) == whole


def test_after_a_break_or_an_exception_the_next_for_is_the_next_epoch(
    make: Make, epochs_read: Callable[[], list[dict[str, Any]]]
) -> None:
    loader = make(batch_size=5, shuffle=True)
    kept: Iterator[Any] = iter(loader)
    next(kept)  # and left, not exhausted, not collected

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        any(map(fail, loader))
    third = make(batch_size=5, shuffle=True)
    third.set_epoch(2)
    assert ids(loader) == ids(third)
    del kept
    gc.collect()
    assert [(e["epoch"], e["steps"]) for e in epochs_read()] == [(1, 1), (2, 8), (2, 8), (0, 1)]


def test_a_loader_that_is_dropped_in_the_middle_leaves_its_line(
    make: Make, epochs_read: Callable[[], list[dict[str, Any]]]
) -> None:
    loader = make(batch_size=5)
    batches = iter(loader)
    next(batches)
    del loader, batches
    gc.collect()
    assert [epoch["steps"] for epoch in epochs_read()] == [1]


def test_a_fork_cannot_use_its_parents_loader(make: Make) -> None:
    loader = make(batch_size=5)
    batches = iter(loader)
    next(batches)
    said: multiprocessing.SimpleQueue[str] = multiprocessing.SimpleQueue()
    for use in (lambda: next(batches), lambda: len(loader), lambda: iter(loader)):
        child = os.fork()
        if child == 0:
            try:
                use()
            except DataError as error:
                said.put(str(error))
            os._exit(0)
        os.waitpid(child, 0)
        assert "its fork: make a DataLoader in the process that reads it" in said.get()
    assert len(list(batches)) == 7


WAITING = """
{first}
from launcher.data import DataLoader, service
service._LOG_AWAITED_EVERY = 1
len(DataLoader("pipeline:train_set"))
"""


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import socket; socket.setdefaulttimeout(0.1)",
        "import signal; signal.signal(signal.SIGALRM, lambda *_: None); "
        "signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)",
    ],
    ids=["as it is", "timeouts of the script's own sockets", "signals all the time"],
)
def test_a_wait_for_data_is_logged(first: str) -> None:
    with socket.socket(socket.AF_UNIX) as receiver:  # that hears, and says nothing
        name = f"launcher-test-{secrets.token_hex(8)}"
        receiver.bind(f"\0{name}")
        receiver.listen()
        script = subprocess.Popen(
            [sys.executable, "-c", WAITING.format(first=first)],
            env={**os.environ, "LAUNCHER_DATA_ENGINE": "launcher", "LAUNCHER_RECEIVER": name},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert script.stderr is not None
        event = next(filter(None, map(parse_event, script.stderr)))
    assert event[0] == "data_awaited"
    assert event[1]["what"] == "the description of pipeline:train_set"
    script.kill()
    script.communicate()


# Wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"epochs": 0}, "epochs is 0; it must be at least 1, or None"),
        ({"on_error": "ignore"}, "on_error is 'ignore'; it must be one of"),
        ({"seed": None}, "seed is None; it must be an int"),
        ({"rank": 0.5}, "rank is 0.5; it must be a whole number"),
        ({"world_size": "2"}, "world_size is '2'; it must be a whole number"),
        ({"rank": -1}, "rank is -1; it must be 0 or more"),
        ({"batch_sampler": "p:b", "shuffle": True}, "batch_sampler excludes shuffle"),
        (
            {"batch_sampler": "p:b", "batch_size": 2, "sampler": "p:s", "drop_last": True},
            "batch_sampler excludes batch_size, sampler, drop_last",
        ),
        ({"batch_size": None, "drop_last": True}, "batch_size=None excludes drop_last"),
        ({"batch_size": None, "on_error": "skip"}, "batch_size=None excludes on_error='skip'"),
        ({"collate_fn": len}, "a collate_fn is named, as in 'p:len', .* got a builtin_function"),
        ({"sampler": 7}, "a function, named as in .p:function.; got a int: write a function of"),
        ({"collate_fn": "collate"}, "'collate' is not a collate_fn reference"),
        (
            {"collate_fn": "os:system"},
            "not in the dataset's module p: import it there and write 'p:system'",
        ),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_opened(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        DataLoader("p:d", **loader_arguments(**arguments))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(DataError, match=r"(?s)batch_size is 0.*uneven is 'no'.*sampler excludes"):
        DataLoader("p:d", 0, sampler="p:s", shuffle=True, options=LoaderOptions(uneven="no"))  # type: ignore[arg-type]

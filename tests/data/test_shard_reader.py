"""Live iterators over shards: the same bytes alone, side by side, later and again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hosts import REPOSITORY

from launcher.data import shard
from launcher.data.order import (
    ShardBatch,
    ShardEnd,
    ShardReader,
    ShardReaderPlan,
    ShardReaders,
    StreamSpec,
)
from launcher.data.repeatable import entropy_sources
from launcher.errors import DataError, SampleError
from launcher.shared import parse_event

#: Lines of a file with augmentation, read as a plain generator would, from three generators.
NOISY = """
import random
import numpy as np
from launcher.data import shard

class Lines:
    def __iter__(self):
        self.place = 0  # what an iterator keeps on itself must not be shared
        index, count = shard()
        numbers = list(range(index, 23, count))
        random.shuffle(numbers)
        while self.place < len(numbers):
            noise = np.random.rand(3)
            yield {"id": numbers[self.place], "noise": noise, "coin": random.random()}
            self.place += 1

def train_set():
    return Lines()
"""

Open = Callable[..., ShardReader]


@pytest.fixture
def open_lane(write_module: Callable[[str], str]) -> Open:
    """Opens lanes of the dataset of a module."""

    def make(code: str = NOISY, number: int = 0, **fields: object) -> ShardReader:
        return ShardReader(plan(f"{write_module(code)}:train_set", number, **fields))

    return make


def plan(dataset: str, number: int, *, shards: int = 3, **fields: object) -> ShardReaderPlan:
    place = {name: fields.pop(name) for name in ("epoch", "pass_index", "first") if name in fields}
    spec = StreamSpec(name="s", dataset=dataset, shards=shards, **{"batch_size": 2, **fields})  # type: ignore[arg-type]
    return ShardReaderPlan(**{"spec": spec, "epoch": 0, "shard": number, **place})  # type: ignore[arg-type]


def content(portion: ShardBatch | ShardEnd) -> object:
    if isinstance(portion, ShardEnd):
        return portion
    assert portion.parts is not None
    tree, arrays = portion.parts
    return portion.samples, tree, [array.tobytes() for array in arrays]


def ids(lane: ShardReader) -> list[int]:
    """The sample ids of a lane, which has them in its first array."""
    found: list[int] = []
    step = 0
    while isinstance(portion := lane.read(step), ShardBatch):
        assert portion.parts is not None
        found += portion.parts[1][0].tolist()
        step += 1
    return found


def test_shards_share_the_samples(open_lane: Open) -> None:
    found = [ids(open_lane(number=number)) for number in range(3)]
    assert sorted(chain(*found)) == list(range(23))
    assert all(numbers != sorted(numbers) for numbers in found)


def test_shards_share_the_samples_that_a_generator_of_the_module_has_shuffled(
    open_lane: Open,
) -> None:
    """Also the first shard of a process, which imports the module."""
    shuffled = """
import random
from launcher.data import shard

GENERATOR = random.Random(3)

class Files:
    def __init__(self):
        self.numbers = list(range(23))
        GENERATOR.shuffle(self.numbers)

    def __iter__(self):
        index, count = shard()
        yield from self.numbers[index::count]

def train_set():
    return Files()
"""
    found = [ids(open_lane(shuffled, number=number)) for number in range(3)]
    assert sorted(chain(*found)) == list(range(23))


def test_a_lane_is_the_same_alone_and_beside_others(open_lane: Open) -> None:
    alone = [[content(open_lane(number=n).read(step)) for step in range(5)] for n in range(3)]
    beside = [open_lane(number=n) for n in range(3)]
    turns = [[content(lane.read(step)) for lane in beside] for step in range(5)]
    assert [list(lane) for lane in zip(*turns, strict=True)] == alone


def test_a_lane_goes_back_and_forward_and_is_the_same(open_lane: Open) -> None:
    straight = open_lane()
    expected = [content(straight.read(step)) for step in range(6)]
    assert expected[4:] == [content(ShardEnd(batches=4))] * 2
    wandering = open_lane()
    coin = random.Random(4)
    for step in coin.choices(range(6), k=40):
        assert content(wandering.read(step)) == expected[step]


@pytest.mark.parametrize("first", [1, 3, 4, 9])
def test_a_lane_begins_where_its_plan_says(open_lane: Open, first: int) -> None:
    whole = open_lane()
    assert content(open_lane(first=first).read(0)) == content(whole.read(first))


@pytest.mark.parametrize("change", [{"epoch": 1}, {"pass_index": 1}, {"seed": 1}, {"number": 1}])
def test_random_numbers_follow_from_seed_epoch_lap_and_shard(
    open_lane: Open, change: dict[str, object]
) -> None:
    assert content(open_lane().read(0)) == content(open_lane().read(0))
    assert content(open_lane(**change).read(0)) != content(open_lane().read(0))


def test_incomplete_batches_are_kept_or_dropped(open_lane: Open) -> None:
    sizes = {"batch_size": 3, "number": 2}  # seven samples
    assert [content(open_lane(**sizes).read(i))[0] for i in range(3)] == [3, 3, 1]  # type: ignore[index]
    assert open_lane(**sizes, drop_last=True).read(2) == ShardEnd(batches=2)


def test_the_random_states_of_the_script_are_left_alone(open_lane: Open) -> None:
    def draws() -> tuple[float, float]:
        return random.random(), float(np.random.rand())

    random.seed(5)
    np.random.seed(5)
    undisturbed = draws(), draws()
    random.seed(5)
    np.random.seed(5)
    lane = open_lane()
    lane.read(0)
    first = draws()
    lane.read(1)
    lane.close()
    assert (first, draws()) == undisturbed
    assert shard() == (0, 1)


# torch ------------------------------------------------------------------------------------------

#: As torch's own documentation shards an iterable dataset; nothing of Launcher's.
UNMODIFIED = """
import math
import torch
from torch.utils.data import IterableDataset, get_worker_info

class Numbers(IterableDataset):
    def __init__(self, start, end):
        self.start, self.end = start, end

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            return iter(range(self.start, self.end))
        share = math.ceil((self.end - self.start) / info.num_workers)
        first = self.start + info.id * share
        assert info.dataset is self
        return iter(range(first, min(first + share, self.end)))

def train_set():
    return Numbers(3, 24)
"""


def test_an_unmodified_dataset_of_torch_shards_itself(open_lane: Open) -> None:
    torch = pytest.importorskip("torch")
    shares = [ids(open_lane(UNMODIFIED, number)) for number in range(3)]
    assert shares == [list(range(3, 10)), list(range(10, 17)), list(range(17, 24))]
    assert torch.utils.data.get_worker_info() is None


LATE_TORCH = """
from launcher.data import shard

class Late:
    def __iter__(self):
        shard()
        yield 0.0
        import torch
        for _ in range(4):
            yield float(torch.rand(1))

def train_set():
    return Late()
"""


@pytest.mark.long
def test_torch_that_is_imported_while_a_shard_is_read_is_seeded_as_well(
    open_lane: Open, tmp_path: Path
) -> None:
    pytest.importorskip("torch")  # which is here from the start
    here = open_lane(LATE_TORCH, batch_size=5, shards=1).read(0)
    assert isinstance(here, ShardBatch)
    assert here.parts is not None
    (module,) = tmp_path.glob("own_*.py")
    program = f"""
import sys
from launcher.data.order.shard_reader import ShardReader
from launcher.data.order.stream_spec import StreamSpec
from launcher.data.order.shards import ShardReaderPlan
assert "torch" not in sys.modules
spec = StreamSpec(name="s", dataset="{module.stem}:train_set", batch_size=5)
print(ShardReader(ShardReaderPlan(spec=spec, epoch=0, shard=0)).read(0).parts[1][0].tobytes().hex())
"""
    there = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=True,
    )
    assert there.stdout.decode().strip() == here.parts[1][0].tobytes().hex()


# What goes wrong --------------------------------------------------------------------------------


def test_webdataset_that_is_imported_while_a_shard_is_read_is_seeded_as_well(
    open_lane: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in that takes its seeds as webdataset does, from process id and clock."""
    code = """
import random
from launcher.data import shard

class Lines:
    def __iter__(self):
        from webdataset import filters

        shard()
        yield from [random.Random(filters.seed()).random() for _ in range(4)]

def train_set():
    return Lines()
"""
    package = tmp_path / "webdataset"
    package.mkdir()
    (package / "__init__.py").write_text("from webdataset import filters, shardlists\n")
    (package / "shardlists.py").write_text("")
    (package / "filters.py").write_text(
        "import os\nimport time\n\ndef seed():\n    return f'{os.getpid()} {time.time()}'\n"
    )
    for name in ("webdataset", "webdataset.filters", "webdataset.shardlists"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    entropy_sources._patch_loaded_webdataset.cache_clear()
    first, second = (content(open_lane(code, batch_size=4).read(0)) for _ in range(2))
    for name in ("webdataset", "webdataset.filters", "webdataset.shardlists"):
        del sys.modules[name]
    entropy_sources._patch_loaded_webdataset.cache_clear()
    assert first == second


def test_a_dataset_that_ignores_its_shard_is_refused(open_lane: Open) -> None:
    heedless = NOISY.replace("index, count = shard()", "index, count = 0, 1").replace(
        "random.shuffle(numbers)", ""
    )
    without_noise = heedless.replace("np.random.rand(3)", "np.zeros(3)").replace(
        "random.random()", "0.5"
    )
    with pytest.raises(DataError, match=r"same samples in shards 0 and 1, .* would occur 3 times"):
        open_lane(without_noise).read(0)
    assert isinstance(open_lane(without_noise, shards=1).read(0), ShardBatch)


def test_a_dataset_that_draws_its_samples_may_ignore_its_shard(
    open_lane: Open, caplog: pytest.LogCaptureFixture
) -> None:
    endless = """
import random

def train_set():
    while True:
        yield random.random()
"""
    assert content(open_lane(endless).read(0)) != content(open_lane(endless, 1).read(0))
    events = [parse_event(line) for line in caplog.messages]
    assert [event[0] for event in events if event] == ["shard_not_queried"] * 2


def test_a_dataset_that_raises_is_named_with_its_shard_and_place(open_lane: Open) -> None:
    broken = NOISY.replace("noise =", "1 / (self.place - 3)\n            noise =")
    lane = open_lane(broken, 1)
    lane.read(0)
    for _ in range(2):  # again when it is asked again
        with pytest.raises(
            SampleError, match=r"ZeroDivisionError in shard 1 of 3, after 3 samples"
        ) as caught:
            lane.read(1)
        assert caught.value.index == 3
        assert "1 / (self.place - 3)" in caught.value.remote_traceback


@pytest.mark.parametrize("end", ["raise SystemExit(0)", "raise KeyError(1)"])
def test_an_iterator_that_cannot_be_created_is_reported(open_lane: Open, end: str) -> None:
    code = (
        f"class Bad:\n    def __iter__(self):\n        {end}\n\ndef train_set():\n    return Bad()"
    )
    with pytest.raises(SampleError, match="in shard 0 of 3, after 0 samples"):
        open_lane(code).read(0)


def test_an_iterator_is_closed_with_its_run(
    open_lane: Open, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code = """
from launcher.data import shard

def train_set():
    shard()
    try:
        yield from range(100)
    finally:
        print("closed", flush=True)
        1 / 0
"""
    lane = open_lane(code.replace("shard()", "print(shard(), flush=True)"), 2)
    lanes = ShardReaders({"run": lane})
    lane.read(0)
    assert capfd.readouterr().out == "(2, 3)\n"
    lanes.end("run")
    lanes.end("run")
    assert capfd.readouterr().out == "closed\n"
    assert "raised when closed" in caplog.text
    assert "ZeroDivisionError" in caplog.text

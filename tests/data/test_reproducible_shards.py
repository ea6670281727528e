"""A shard that is read again must give what it gave: otherwise the run fails, or warns once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loader_arguments import loader_arguments

pytest.importorskip("telling_datasets")

from launcher.data import DataLoader, LoaderOptions
from launcher.data.order import (
    ShardBatch,
    ShardEnd,
    ShardPlan,
    ShardReader,
    ShardReaderPlan,
    StreamSpec,
    read_parts,
)
from launcher.errors import DataError

DRIFTING, STEADY = "telling_datasets:drifting", "entropy_datasets:steady_lines"


class WithLoss:
    """A shard whose worker is lost after some batches: another one reads it from its start."""

    def __init__(self, plan: ShardReaderPlan, lost_after: int) -> None:
        self._readers = [ShardReader(plan), ShardReader(plan)]
        self._step, self._lost_after = 0, lost_after

    def __iter__(self) -> Iterator[ShardBatch | ShardEnd]:
        return self

    def __next__(self) -> ShardBatch | ShardEnd:
        self._step += 1
        return self._readers[self._step > self._lost_after].read(self._step - 1)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def read_with_loss(dataset: str, lost_after: int, **options: object) -> int:
    """The number of batches that a rank gets."""
    spec = StreamSpec(name="lines", dataset=dataset, batch_size=2, shards=2, **options)  # type: ignore[arg-type]
    plan = ShardPlan(spec=spec, epoch=0)
    return len(list(read_parts(plan, lambda each: WithLoss(each, lost_after))))


@pytest.mark.parametrize("lost_after", [1, 3, 4])
def test_a_loss_changes_nothing_where_the_shard_repeats_itself(lost_after: int) -> None:
    assert read_with_loss(STEADY, lost_after) == 8


@pytest.mark.parametrize("lost_after", [1, 3, 4])
def test_a_loss_fails_the_run_where_the_shard_differs(lost_after: int) -> None:
    with pytest.raises(DataError, match=r"drifting is not reproducible.*shard 0 gave other"):
        read_with_loss(DRIFTING, lost_after)


def test_a_loss_may_be_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert read_with_loss(DRIFTING, 2, on_nondeterminism="warn") == 8
    (text,) = caplog.messages[:1]
    assert f"{DRIFTING} is not reproducible" in text


def resumed(dataset: str, taken: int, **options: object) -> list[object]:
    arguments = {"batch_size": 2, "shards": 2, **options}
    loader = DataLoader(dataset, **loader_arguments(**arguments))  # type: ignore[arg-type]
    reading = iter(loader)
    for _ in range(taken):
        next(reading)
    state = loader.state_dict()
    again = DataLoader(dataset, **loader_arguments(**arguments))  # type: ignore[arg-type]
    again.load_state_dict(state)
    return list(again)


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_a_resumed_run_reads_on_where_the_shards_repeat_themselves(taken: int) -> None:
    assert len(resumed(STEADY, taken)) == 8 - taken


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_a_resumed_run_fails_where_the_shards_differ(taken: int) -> None:
    with pytest.raises(DataError, match="where the state was saved, so samples would be lost"):
        resumed(DRIFTING, taken)
    assert len(resumed(DRIFTING, taken, on_nondeterminism="warn")) == 8 - taken


def test_a_state_of_another_rank_compares_nothing() -> None:
    options = {"batch_size": 2, "shards": 2, "steps": 4, "world_size": 2}
    loaders = [DataLoader(DRIFTING, **loader_arguments(rank=rank, **options)) for rank in range(2)]  # type: ignore[arg-type]
    next(iter(loaders[0]))
    loaders[1].load_state_dict(loaders[0].state_dict())
    assert len(list(loaders[1])) == 3


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(DataError, match="on_nondeterminism is 'ignore'; it must be one of"):
        DataLoader(STEADY, options=LoaderOptions(on_nondeterminism="ignore"))  # type: ignore[arg-type]

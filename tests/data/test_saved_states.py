"""Iterable datasets that can resume: what a lost worker's shard is read again from."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import resumable_datasets
from hosts import Hosts
from made_hosts import MakeHosts

from launcher.data.order import (
    SavedState,
    SavedStates,
    ShardBatch,
    ShardReader,
    ShardReaderPlan,
    StreamSpec,
)
from launcher.data.repeatable import seeding

#: Batches of one of two shards, of 4 samples, and how many of them the lost worker had read.
BATCHES, LOST_AFTER = 100, 80


@pytest.fixture(autouse=True)
def _no_other_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their generators, which a process keeps once it has imported them, are in each state."""
    monkeypatch.setattr(seeding.kept_generators, "kept", [])


def plan(name: str, **fields: object) -> ShardReaderPlan:
    reference = f"resumable_datasets:{name}"
    spec = StreamSpec(name="s", dataset=reference, batch_size=4, shards=2, **fields)  # type: ignore[arg-type]
    return ShardReaderPlan(spec=spec, epoch=0, shard=1)


def read(reader: ShardReader, first: int, end: int) -> Iterator[tuple[object, ...]]:
    for step in range(first, end):
        batch = reader.read(step)
        assert isinstance(batch, ShardBatch)
        tree, arrays = batch.take()
        yield batch.follows, batch.fingerprint, tree, [each.tobytes() for each in arrays]


def saving(name: str, states: list[SavedState]) -> SavedStates:
    """With no limit to its time, as these samples take none."""
    saved = SavedStates(name, states.append, share=math.inf)
    saved.add(states[-4:])
    return saved


def read_with_loss(
    name: str, lost_after: int = LOST_AFTER
) -> tuple[list[SavedState], list[int], bool]:
    """Compare what two workers read with one; returns states, what the second asked for, exact."""
    straight = list(read(ShardReader(plan(name)), 0, BATCHES))
    states: list[SavedState] = []
    one = ShardReader(plan(name), saved=saving(name, states))
    assert list(read(one, 0, lost_after)) == straight[:lost_after]
    saved = saving(name, states)
    other = ShardReader(plan(name), saved=saved)
    resumable_datasets.asked.clear()
    assert list(read(other, lost_after - 1, BATCHES)) == straight[lost_after - 1 :]
    return states, resumable_datasets.asked[:], saved.are_exact


@pytest.mark.parametrize("name", resumable_datasets.EXACT)
@pytest.mark.parametrize("lost_after", [17, 80, 99])
def test_a_shard_goes_on_from_the_states_of_a_lost_worker(
    name: str, lost_after: int, caplog: pytest.LogCaptureFixture
) -> None:
    states, asked, is_exact = read_with_loss(name, lost_after)
    assert is_exact
    assert len(asked) <= 4 * (BATCHES - lost_after + 1 + 16)  # two intervals at most
    assert all(len(repr(vars(state))) < 30_000 for state in states)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Late", "it gives other samples than before"),
        ("Refilled", "it gives other samples than before"),
        ("Rare", "its random generators are not as before"),
        ("Raising", "TypeError.*missing 2 required"),
        ("Large", "more than 256 KiB"),
    ],
)
def test_a_state_that_is_not_exact_is_not_used_and_the_log_says_why(
    name: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, asked, is_exact = read_with_loss(name)
    assert not is_exact
    assert len(asked) >= 4 * BATCHES  # from its start
    assert re.search(f"resumable_datasets:{name} cannot go on.*{why}", caplog.messages[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_exact"),
    [
        pytest.param("hugging_face", True, marks=pytest.mark.library("torch-datasets")),
        pytest.param("hugging_face_shuffled", False, marks=pytest.mark.library("torch-datasets")),
        pytest.param("nodes", True, marks=pytest.mark.library("torchdata")),
    ],
)
def test_datasets_of_libraries_go_on_from_their_states_where_these_are_exact(
    name: str, is_exact: bool, caplog: pytest.LogCaptureFixture
) -> None:
    states, _, was_exact = read_with_loss(name)
    assert len(states) >= 10
    assert was_exact == is_exact
    assert bool(caplog.messages) != is_exact


READER = """
import hashlib, sys
from launcher.data import DataLoader

digest = hashlib.sha256()
for batch in DataLoader("resumable_datasets:%s", batch_size=4, seed=3):
    digest.update(b"".join(batch[name].tobytes() for name in ("id", "noise", "coin")))
print(f"rank=0 epoch=0 sha256={digest.hexdigest()}", flush=True)
"""


def run(
    make_hosts: MakeHosts, name: str, folder: Path, data: int, kill_at: str = ""
) -> tuple[Hosts, int]:
    """Return the hosts of a job that has ended, and how many samples its dataset was asked for."""
    log = folder / f"asked-{data}"
    hosts = make_hosts(
        {
            "resumable_datasets.py": Path(resumable_datasets.__file__).read_text(),
            "train.py": READER % name,
        },
        datasets=(),
        data=data,
        workers_per_host=1,
        environment={"ASKED": str(log), "KILL_AT": kill_at},
    )
    hosts.run()
    return hosts, log.stat().st_size


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "kill_at"), [("Lines", "640"), ("Held", "200 400 640 700"), ("Rare", "640")]
)
def test_a_worker_that_is_killed_at_80_percent_of_a_stream(
    make_hosts: MakeHosts, tmp_path: Path, name: str, kill_at: str
) -> None:
    """Of 800 samples, its dataset is asked for hardly more, or again for all where it must be."""
    alone, count = run(make_hosts, name, tmp_path, data=0)
    assert count == 800
    killed, count = run(make_hosts, name, tmp_path, data=2, kill_at=kill_at)
    assert killed.hashes() == alone.hashes()
    logged = Counter[str]()
    for kind in ("worker_died", "shard_resumed", "dataset_not_resumed"):
        logged[kind] = sum(len(host.events(kind)) for host in killed.hosts.values())
    kills = len(kill_at.split())
    assert logged["worker_died"] == kills
    if name in resumable_datasets.EXACT:
        assert count <= 800 + 200 * kills
        assert logged["shard_resumed"] >= kills
        assert not logged["dataset_not_resumed"]
    else:
        assert count >= 640 + 800
        assert not logged["shard_resumed"]
        assert 1 <= logged["dataset_not_resumed"] <= 2  # of each worker that reads it again

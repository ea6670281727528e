"""Iterable datasets that can resume: what a shard is read again from, by a worker and by a job."""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import resumable_datasets
from hosts import Hosts
from made_hosts import MakeHosts

from launcher.data import DataLoader, LoaderOptions, sources
from launcher.data.order import (
    SavedState,
    SavedStates,
    ShardBatch,
    ShardReader,
    ShardReaderPlan,
    StreamSpec,
)
from launcher.data.repeatable import seeding
from launcher.errors import DataError

#: Batches of one of two shards, of 4 samples, and how many of them the lost worker had read.
BATCHES, LOST_AFTER = 100, 80


@pytest.fixture(autouse=True)
def _no_other_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their generators, which a process keeps once it has imported them, are in each state."""
    monkeypatch.setattr(seeding.kept_generators, "kept", [])
    monkeypatch.setattr(sources, "_SAVING_SHARE", math.inf)  # these samples take no time


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


# A job that resumes -----------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "by name": {"shards": 2},
    "with workers": {"shards": 2, "workers": 2},
    "an object": {},
    "copies of an object": {"shards": 2},
    "a rank of two": {"shards": 4, "options": LoaderOptions(rank=1, world_size=2, steps=60)},
}


def read_by_job(
    name: str, kind: str, state: object = None, end: int | None = None
) -> tuple[list[object], dict[str, Any]]:
    """Return a job's batches up to one, from a state on, and its own state then."""
    dataset: object = f"resumable_datasets:{name}"
    if "object" in kind:
        dataset = getattr(resumable_datasets, name)()
    loader = DataLoader(dataset, batch_size=4, seed=3, name="stream", tensors=False, **KINDS[kind])
    loader.set_epoch(0)
    if state is not None:
        loader.load_state_dict(state)  # type: ignore[arg-type]
    resumable_datasets.asked.clear()
    found = [repr(batch) for batch in itertools.islice(loader, end)]
    return found, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", resumable_datasets.EXACT)
def test_a_job_goes_on_from_the_states_in_its_checkpoint(
    name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Twice, the second time before a batch, and with most of what was read not read again."""
    whole, _ = read_by_job(name, kind)
    first, saved = read_by_job(name, kind, end=50)
    none, state = read_by_job(name, kind, saved, end=0)
    assert state == saved
    more, state = read_by_job(name, kind, state, end=30 - (kind == "a rank of two") * 25)
    count = len(resumable_datasets.asked)
    assert count <= 4 * len(more) + 4 * 2 * 17  # two shards, two intervals at most
    rest, _ = read_by_job(name, kind, state)
    assert first + none + more + rest == whole
    assert len(json.dumps(state)) < 60_000 * 2
    assert not caplog.messages


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Late", "it gives other samples than before"),
        ("Refilled", "it gives other samples than before"),
        ("Rare", "its random generators are not as before"),
        ("Diverging", "it gives other samples than before"),
        ("Raising", "TypeError.*missing 2 required"),
        ("Large", "more than 256 KiB"),
    ],
)
def test_a_job_reads_again_where_a_state_is_not_exact_and_the_log_says_why(
    name: str, why: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole, _ = read_by_job(name, kind)
    first, state = read_by_job(name, kind, end=55)
    rest, _ = read_by_job(name, kind, state)
    assert first + rest == whole
    count = len(resumable_datasets.asked)
    assert count >= 4 * len(whole)  # from its start
    assert re.search(f"cannot go on.*{why}", caplog.messages[-1])


@pytest.mark.parametrize("damage", ["none", "null", "cut", "of another shard"])
def test_a_checkpoint_without_states_is_read_again(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As those are that were saved before there were states."""
    caplog.set_level(logging.INFO)
    whole, _ = read_by_job("Lines", "by name")
    first, state = read_by_job("Lines", "by name", end=50)
    prefixes = state.pop("prefixes")
    if damage == "null":
        state["prefixes"] = {"0": None}
        with pytest.raises(DataError, match="damaged"):
            read_by_job("Lines", "by name", state)
        return
    if damage == "cut":
        for saved in prefixes["0"]["states"]:
            saved["dataset"] = saved["dataset"][:-5]
        state["prefixes"] = prefixes
    if damage == "of another shard":
        state["prefixes"] = {"0": prefixes["1"]}
    rest, _ = read_by_job("Lines", "by name", state)
    assert first + rest == whole
    log = "\n".join(caplog.messages)
    assert ("cannot go on" if damage in ("cut", "of another shard") else "read_again") in log


def test_ranks_that_load_the_states_of_all_go_on_from_their_own() -> None:
    states = []
    for rank in (0, 1):
        options = LoaderOptions(rank=rank, world_size=2, steps=60)
        loader = DataLoader(
            "resumable_datasets:Lines", batch_size=4, shards=4, options=options, tensors=False
        )
        loader.set_epoch(0)
        assert len([*itertools.islice(loader, 50)]) == 50
        states.append(loader.state_dict())
    resumable_datasets.asked.clear()
    loader.load_state_dict(states)
    assert len([*loader]) == 10
    own = len(resumable_datasets.asked)
    loader.load_state_dict(states[0])  # another rank's, as when rank 0 alone saves
    resumable_datasets.asked.clear()
    assert len([*loader]) == 10
    assert own < 4 * (10 + 2 * 17) <= len(resumable_datasets.asked) == 4 * 60


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
    whole, _ = read_by_job(name, "by name")
    first, state = read_by_job(name, "by name", end=50)
    caplog.clear()
    assert first + read_by_job(name, "by name", state)[0] == whole
    assert bool(caplog.messages) != is_exact


READER = """
import hashlib, json, os, pathlib
from launcher.data import DataLoader

loader = DataLoader("resumable_datasets:%s", batch_size=4, seed=3)
checkpoint, taken = pathlib.Path(os.environ["CHECKPOINT"]), 0
if checkpoint.exists():
    loader.load_state_dict(json.loads(checkpoint.read_text()))
    taken = 160
digests = hashlib.sha256(), hashlib.sha256()
for number, batch in enumerate(loader, taken + 1):
    content = b"".join(batch[name].tobytes() for name in ("id", "noise", "coin"))
    digests[number > 160].update(content)
    if number == 160:
        checkpoint.write_text(json.dumps(loader.state_dict()))
for part, digest in enumerate(digests):
    print(f"rank=0 epoch={part} sha256={digest.hexdigest()}", flush=True)
"""


def run(
    make_hosts: MakeHosts, name: str, folder: Path, data: int, kill_at: str = ""
) -> tuple[Hosts, int]:
    """Return the hosts of a job that has ended, and how many samples its dataset was asked for.

    It resumes after 640 if one with as many data hosts has run in the folder.
    """
    log = folder / f"asked-{data}"
    hosts = make_hosts(
        {
            "resumable_datasets.py": Path(resumable_datasets.__file__).read_text(),
            "train.py": READER % name,
        },
        datasets=(),
        data=data,
        workers_per_host=1,
        environment={
            "ASKED": str(log),
            "CHECKPOINT": str(folder / f"checkpoint-{data}"),
            "KILL_AT": kill_at,
        },
    )
    hosts.run()
    return hosts, log.stat().st_size


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "kill_at"), [("Lines", "640"), ("Held", "200 400 640 700"), ("Rare", "640")]
)
def test_a_worker_that_is_killed_and_a_job_that_resumes_at_80_percent_of_a_stream(
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
    resumed, total = run(make_hosts, name, tmp_path, data=2)
    assert resumed.hashes()[1:] == alone.hashes()[1:]
    assert (total - count <= 160 + 200) == (name in resumable_datasets.EXACT)
    word = "shard_resumed" if name in resumable_datasets.EXACT else "dataset_not_resumed"
    assert any(host.events(word) for host in resumed.hosts.values())

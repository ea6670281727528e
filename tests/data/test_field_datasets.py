"""Datasets of other libraries: the same bits in process and in jobs whose workers are killed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from field_datasets import LENGTH
from hosts import Host, Hosts
from made_hosts import MakeHosts
from waiting import wait_until

Read = dict[str, list[dict[str, Any]]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.library("torch-datasets"),
    pytest.mark.timeout(1800),
]

BY_INDEX = {"shuffle": True, "seed": 5}
IN_SHARDS = {"shards": 4, "seed": 5}
#: How each dataset is read.
_BY_INDEX = [
    *("hf_map", "hf_map_shuffled", "hf_map_transform", "albumentations_unseeded"),
    *("albumentations_seeded", "torchvision_v2", "torchvision_folder", "h5py_rows"),
    *("zarr_rows", "lmdb_rows", "safetensors_rows", "parquet_rows"),
]
_IN_SHARDS = [
    *("hf_iterable", "hf_iterable_shuffled", "hf_iterable_unseeded", "hf_streaming", "wds"),
    *("wds_shuffled", "lit", "lit_ordered", "parquet_batches"),
]
CASES = {**dict.fromkeys(_BY_INDEX, BY_INDEX), **dict.fromkeys(_IN_SHARDS, IN_SHARDS)}
#: Datasets that have one order and draw nothing: each epoch is like the first.
STEADY = {"wds", "lit_ordered", "parquet_batches"}
#: Also without shuffle, by a sampler, with one shard, sample by sample, or in other batches.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "shuffle": {
        "": {},
        "-plain": {"shuffle": False},
        "-sampler": {"shuffle": False, "sampler": "field_datasets:backwards"},
        "-samples": {"batch_size": None},
    },
    "shards": {
        "": {},
        "-one": {"shards": 1},
        "-samples": {"batch_size": None},
        "-sevens": {"batch_size": 7},
    },
}
#: Variants with one order for all epochs.
ORDERED = ("-plain", "-sampler")

#: Workers to kill; the job reads everything again until they have been.
KILLS = 20
#: Seconds between two kills: a host gives its workers up when ten die within 30 s.
_KILL_EVERY = 4.0

TRAINER = """
import hashlib, itertools, json, os
import numpy as np
from launcher.data import DataLoader

def digest(batch):
    hashed = hashlib.sha256()
    for name in sorted(batch):
        value = batch[name]
        hashed.update(name.encode())
        is_list = isinstance(value, list)
        hashed.update(repr(value).encode() if is_list else np.asarray(value).tobytes())
    return hashed.hexdigest()[:16]

def read_all(number):
    for case, function, arguments, options in json.loads(os.environ["FIELD_CASES"]):
        name = f"{case}, pass {number}"
        options = {"batch_size": 4, "dataset_args": arguments, "name": name, "epochs": 2} | options
        loader = DataLoader(f"field_datasets:{function}", **options)
        for epoch in range(2):
            ids, digests = [], []
            for batch in loader:
                ids += np.asarray(batch["id"]).reshape(-1).tolist()
                digests.append(digest(batch))
            print("field", json.dumps({"case": case, "ids": ids, "digests": digests}), flush=True)

if __name__ == "__main__":
    for number in itertools.count():
        read_all(number)
        if os.path.exists(os.environ["FIELD_DONE"]):
            break
"""


def cases() -> list[str]:
    return [name + variant for name, options in CASES.items() for variant in variants(options)]


def variants(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return VARIANTS["shards" if "shards" in options else "shuffle"]


def definition(case: str, root: Path) -> tuple[str, str, dict[str, str], dict[str, Any]]:
    name, _, variant = case.partition("-")
    takes_root = name not in ("albumentations_unseeded", "albumentations_seeded", "torchvision_v2")
    options = CASES[name] | variants(CASES[name])[variant and f"-{variant}"]
    return case, name, {"root": str(root)} if takes_root else {}, options


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all datasets, written by a process of its own."""
    folder = tmp_path_factory.mktemp("field")
    script = Path(__file__).with_name("field_datasets.py")
    subprocess.run(
        [sys.executable, script], env={**os.environ, "FIELD_ROOT": str(folder)}, check=True
    )
    return folder


def make(make_hosts: MakeHosts, root: Path, **groups: int) -> Hosts:
    files = {
        "field_datasets.py": Path(__file__).with_name("field_datasets.py").read_text(),
        "train.py": TRAINER,
    }
    environment = {
        "FIELD_CASES": json.dumps([definition(case, root) for case in cases()]),
        "FIELD_DONE": str(root / "done"),
    }
    return make_hosts(files, datasets=(), environment=environment, workers_per_host=2, **groups)


def what_was_read(hosts: Hosts) -> Read:
    found: Read = {}
    for line in re.findall(r"^field (.*)$", hosts.output(), re.MULTILINE):
        epoch = json.loads(line)
        found.setdefault(epoch["case"], []).append(epoch)
    return found


def epochs_beyond(leader: Host, before: int) -> int:
    """Epochs that were read; 0 while there are no more than before, unless the host has ended."""
    assert leader.process is not None
    count = leader.output.count("\nfield ")
    has_ended = leader.process.poll() is not None
    return max(1, count) if count > before or has_ended else 0


def run(hosts: Hosts, done: Path, *, kills: bool) -> int:
    """Let the job read all; returns how many workers were killed, one after each epoch."""
    done.unlink(missing_ok=True)
    if not kills:
        done.touch()
    hosts.start()
    leader, killed, before = hosts[hosts.members["train_group"][0]], set[int](), 0
    process, latest = leader.process, 0.0
    assert process is not None
    while process.poll() is None:
        before = wait_until(functools.partial(epochs_beyond, leader, before))
        workers = [int(str(event["pid"])) for event in leader.events("worker_joined")]
        is_due = time.monotonic() - latest > _KILL_EVERY
        if kills and is_due and (living := [pid for pid in workers if pid not in killed]):
            killed.add(living[-1])
            latest = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(living[-1], signal.SIGKILL)
            if len(killed) == KILLS:
                done.touch()
    assert process.wait() == 0, hosts.output()[-8000:]
    return len(killed)


def objections(case: str, alone: Read, other: Read) -> Iterator[str]:
    one, two = alone[case]
    digests, passes = [one["digests"], two["digests"]], max(1, len(other.get(case, ())) // 2)
    if [epoch["digests"] for epoch in other.get(case, ())] != digests * passes:
        yield f"{case}: other bits"
    for epoch in (one, two):
        if sorted(epoch["ids"]) != list(range(LENGTH)):
            yield f"{case}: not each sample once"
    is_steady = case.partition("-")[0] in STEADY
    if (one["ids"] == two["ids"]) != (is_steady or case.endswith(ORDERED)):
        yield f"{case}: the order of the second epoch"


def test_datasets_of_the_field_are_the_same_everywhere(make_hosts: MakeHosts, root: Path) -> None:
    alone = make(make_hosts, root)
    served = make(make_hosts, root, data=2)
    disturbed = make(make_hosts, root, data=2)
    killed = [
        run(hosts, root / "done", kills=hosts is disturbed) for hosts in (alone, served, disturbed)
    ]
    reads = [what_was_read(hosts) for hosts in (alone, served, disturbed)]
    wrong = [
        objection
        for read in reads[1:]
        for case in reads[0]
        for objection in objections(case, reads[0], read)
    ]
    print(f"{len(reads[0])} ways to read, {killed[2]} workers killed")
    assert wrong == []
    assert set(reads[0]) == {*cases()}
    assert killed[2] >= KILLS

"""Jobs whose engine is killed by schedules, one in each epoch, and what their ranks have read."""

from __future__ import annotations

import functools
import itertools
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine_processes import DISPATCHER, WORKER, kill, processes, tf_servers
from hosts import Hosts
from kill_schedules import ROUND, TF_LENGTH, Kill, KillJob, KillSchedule, Mode, Victim
from waiting import wait_until

from launcher.data import DataLoader, LoaderOptions
from launcher.shared import DEFAULT_ENGINE, TF_ENGINE

#: Lines of a file, which is a part that tf.data's workers get.
_LINES = 50
#: Samples with random noise; a worker prepares them about as quickly as ranks read.
_PIPELINE = """
import time
import numpy as np

class Samples:
    def __init__(self, length={length}, size={sample_bytes}, seconds=0.01):
        self.length, self.size, self.seconds = length, size, seconds
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return {{"id": index, "noise": np.random.randint(0, 256, self.size, np.uint8)}}

def train_set():
    return Samples()
"""
_OURS = """
import time, zlib
from launcher.data import DataLoader
from launcher.data.tf import from_service

loader = DataLoader("pipeline:train_set", {batch_size}, shuffle=True, seed={seed}, tensors=False)
dataset = from_service(loader)
for epoch in range({epochs}):
    for batch in dataset:
        ids, crc = batch["id"].numpy(), zlib.crc32(batch["noise"].numpy().tobytes())
        print("got", epoch, ",".join(map(str, ids)), crc, f"{{time.monotonic():.3f}}", flush=True)
        time.sleep({step_seconds})
print("read to the end", flush=True)
"""
_TFS = """
import os, time
import tensorflow as tf
import launcher.data.tf

names = sorted(os.listdir(os.environ["FILES"]))
files = [os.path.join(os.environ["FILES"], name) for name in names]
dataset = tf.data.Dataset.from_tensor_slices(files).interleave(
    tf.data.TextLineDataset, cycle_length=1).map(tf.strings.to_number)
for epoch in range({epochs}):
    read = launcher.data.tf.distribute(dataset, sharding="{mode}", max_outstanding_requests=4)
    for element in read:
        print("got", epoch, int(element), 0, f"{{time.monotonic():.3f}}", flush=True)
        time.sleep({step_seconds})
print("read to the end", flush=True)
"""


@dataclass(frozen=True)
class Got:
    """A batch that a rank has read: its epoch, the ids of its samples, and what they hold."""

    epoch: int
    ids: tuple[int, ...]
    crc: int


@dataclass(frozen=True, kw_only=True)
class Played:
    """What a schedule came to.

    hit: kills that hit somebody. lost, doubled: elements. differing: batches that a rank of
    Launcher's engine got out of order or with other bytes. blocked: the longest wait for a batch
    or for the job's failure, in seconds. went_on: the epoch was read to an end, and another or the
    job's end came after it.
    """

    mode: Mode
    schedule: KillSchedule
    hit: int
    lost: int
    doubled: int
    differing: int
    blocked: float
    went_on: bool


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a job came to. failures: of the train hosts. left: processes."""

    schedules: tuple[Played, ...]
    codes: dict[str, int]
    failures: str
    left: int
    output: str


def play(make_hosts: Callable[..., Hosts], job: KillJob, folder: Path) -> Ended:
    """Run a job to its end, whatever it is."""
    hosts = _hosts(make_hosts, job, folder)
    hosts.start()
    hit = [sum(_commit(hosts, job, s.epoch, kill) for kill in s.kills) for s in job.schedules]
    codes = hosts.wait()
    end = time.monotonic()
    failures = [hosts[name].failure or "" for name in hosts.members["train_group"]]
    return Ended(
        schedules=tuple(map(partial(_played, hosts, job, end), job.schedules, hit)),
        codes=codes,
        failures=" ".join(failures),
        left=len(hosts.processes()),
        output=hosts.output(),
    )


def _hosts(make_hosts: Callable[..., Hosts], job: KillJob, folder: Path) -> Hosts:
    fields = vars(job) | {"mode": job.mode.value, "epochs": ROUND}
    if job.mode is Mode.LAUNCHER:
        return make_hosts(
            {"pipeline.py": _PIPELINE.format(**fields), "train.py": _OURS.format(**fields)},
            data=2,
            train=job.train_hosts,
            engine=DEFAULT_ENGINE,
            workers_per_host=job.workers_per_host,
            prefetch_bytes=job.prefetch_bytes,
            start_timeout=300.0,
        )
    for number in range(TF_LENGTH // _LINES):
        lines = range(number * _LINES, (number + 1) * _LINES)
        (folder / f"{number:02}.txt").write_text("\n".join(map(str, lines)))
    files = {"train.py": _TFS.format(**fields)}
    variables = {"FILES": str(folder)}
    return make_hosts(files, data=2, engine=TF_ENGINE, environment=variables, start_timeout=300.0)


# Kills -------------------------------------------------------------------------------------------


def _commit(hosts: Hosts, job: KillJob, epoch: int, due: Kill) -> bool:
    """Kill when each rank has read as much as is due; return False if one's epoch is over."""
    ranks = [hosts[name] for name in hosts.members["train_group"]]

    def read_in_epoch() -> int:
        of_ranks = [[got for got in _got(rank.output) if got.epoch == epoch] for rank in ranks]
        return min(sum(len(got.ids) for got in read) for read in of_ranks)

    def is_over() -> bool:
        have_ended = [rank.process is None or rank.process.poll() is not None for rank in ranks]
        return any(have_ended) or any(
            got.epoch > epoch for rank in ranks for got in _got(rank.output)
        )

    wait_until(lambda: read_in_epoch() >= due.after or is_over(), what=f"{due} of {epoch}")
    if due.victim is Victim.HOST and not is_over():
        names = hosts.members["data_group"]
        hosts.kill(names[int(due.pick * len(names))])
        return True
    found = wait_until(lambda: _victims(hosts, job, due.victim) or is_over(), what=str(due))
    if not isinstance(found, list):
        return False
    kill(*(found if due.victim is Victim.WORKERS else [found[int(due.pick * len(found))]]))
    return True


def _victims(hosts: Hosts, job: KillJob, victim: Victim) -> list[int]:
    is_dispatcher = victim is Victim.DISPATCHER
    if job.mode is Mode.LAUNCHER:
        return processes(hosts, DISPATCHER if is_dispatcher else WORKER)
    return tf_servers(hosts, "dispatcher" if is_dispatcher else "workers")


# What was read -----------------------------------------------------------------------------------


def _got(output: str) -> list[Got]:
    return [Got(int(epoch), _ids(ids), int(crc)) for _, epoch, ids, crc, _ in _lines(output)]


def _lines(output: str) -> list[list[str]]:
    """The words of the complete lines of batches."""
    complete = output[: output.rfind("\n") + 1].splitlines()
    return [line.split() for line in complete if line.startswith("got ")]


def _ids(words: str) -> tuple[int, ...]:
    return tuple(map(int, words.split(",")))


def _played(hosts: Hosts, job: KillJob, end: float, schedule: KillSchedule, hit: int) -> Played:
    """Compare an epoch with what its ranks read when nothing dies.

    end: the moment when the job had ended.
    """
    lost = doubled = differing = 0
    blocked, went_on = 0.0, True
    for rank, name in enumerate(hosts.members["train_group"]):
        output, epoch = hosts[name].output, schedule.epoch
        got = [each for each in _got(output) if each.epoch == epoch]
        wanted = [each for each in _wanted(job, rank) if each.epoch == epoch]
        read, whole = _elements(got), _elements(wanted)
        lost, doubled = lost + (whole - read).total(), doubled + (read - whole).total()
        if job.mode is Mode.LAUNCHER:
            pairs = itertools.zip_longest(got, wanted[: len(got)])
            differing += sum(one != other for one, other in pairs)
        read_on = "read to the end" in output or any(e.epoch > epoch for e in _got(output))
        blocked = max(blocked, _blocked(output, epoch, [] if read_on else [end]))
        went_on &= read_on
    return Played(
        mode=job.mode,
        schedule=schedule,
        hit=hit,
        lost=lost,
        doubled=doubled,
        differing=differing,
        blocked=blocked,
        went_on=went_on,
    )


def _blocked(output: str, epoch: int, end: list[float]) -> float:
    moments = [float(words[-1]) for words in _lines(output) if words[1] == str(epoch)] + end
    return max((later - sooner for sooner, later in itertools.pairwise(moments)), default=0.0)


def _elements(batches: list[Got]) -> Counter[int]:
    return Counter(each for batch in batches for each in batch.ids)


@functools.lru_cache(maxsize=4)
def _wanted(job: KillJob, rank: int) -> list[Got]:
    """What a rank reads when nothing dies; for Launcher's engine, as this process loads it."""
    if job.mode is not Mode.LAUNCHER:
        return [Got(epoch, (each,), 0) for epoch in range(ROUND) for each in range(TF_LENGTH)]
    names: dict[str, Any] = {"__name__": "pipeline"}
    exec(_PIPELINE.format(**vars(job)), names)
    loader: DataLoader[Any] = DataLoader(
        names["Samples"](seconds=0),
        job.batch_size,
        shuffle=True,
        seed=job.seed,
        tensors=False,
        options=LoaderOptions(rank=rank, world_size=job.train_hosts),
    )
    return [
        Got(epoch, tuple(batch["id"].tolist()), zlib.crc32(batch["noise"].tobytes()))
        for epoch in range(ROUND)
        for batch in loader
    ]

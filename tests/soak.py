"""A job reads at full speed for a long time: nothing of its data processes grows.

Usage: python tests/soak.py [--minutes 20] [--jobs 200]

Two ranks on two hosts read two streams in short epochs, with batches of many sizes, while one
worker in two is killed every few seconds. Meanwhile an endpoint serves short jobs from four
clients (--jobs 0: none). Prints a table; exit code 1 when memory, descriptors, threads or shared
memory have grown, when a batch was wrong, or when a job did not run exactly once.

A receiver keeps free slabs by their bytes, so it has as many as were ever in use at once. The ranks
therefore wait with the first batch of each of the first epochs: every batch that can be prepared
ahead is then prepared, and any memfd beyond those is growth, however late the machine was busy.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS.parent), str(TESTS / "kit")]

from endpoint_load import CLIENTS, EndpointLoad  # noqa: E402 - found beside this file
from hosts import Hosts, running  # noqa: E402 - found beside the package

from launcher.shared import DataPart, JobDocument, Launch, Role, TrainerPart  # noqa: E402

#: Part of the time in which caches and pools may fill.
WARM_UP = 0.3
#: MiB that heap and shared memory may differ between the first and the last quarter after that.
MOST_GROWTH = 3.0
#: Descriptors, threads and memfds may differ by so many: those of one more connection.
MOST_MORE = 12
#: MiB that the endpoint keeps of a job: its objects, its log and its metrics, as AWS does.
KEPT_PER_JOB = 0.1
PREFETCH = 32 << 20
_EVERY = 1.0  # seconds between measurements
_KILL_EVERY = 5.0
_SHARED_MEMORY = Path("/dev/shm")

PIPELINE = """
import numpy as np

class Small:
    def __len__(self):
        return 512
    def __getitem__(self, index):
        return {"id": index, "name": f"sample {index}"}

class Images:
    def __len__(self):
        return 64
    def __getitem__(self, index):
        # All of a batch have one size, and no two batches the same.
        return {"id": index, "image": np.full((50 + index // 8 * 60, 300, 3), index, np.uint8)}

def small():
    return Small()

def images():
    return Images()
"""
TRAIN = """
import os, time
from pathlib import Path
from launcher.data import DataLoader

stop = Path(os.environ["STOP_FILE"])
world = int(os.environ["WORLD_SIZE"])
small = DataLoader("pipeline:small", batch_size=8, shuffle=True)
images = DataLoader("pipeline:images", batch_size=8)
batches = epochs = 0
while not stop.exists():
    for loader, length in ((small, 512), (images, 64)):
        seen = 0
        for batch in loader:
            if not seen and epochs < 3:
                time.sleep(2)  # until all is prepared that can be
            seen += len(batch["id"])
            if "image" in batch:
                assert (batch["image"][:, 0, 0, 0] == batch["id"]).all()
            batches += 1
        assert seen == -(-length // world), (seen, length, world)
    epochs += 1
print(f"rank {os.environ['RANK']}: {batches} batches in {epochs} epochs of both", flush=True)
"""


@dataclass(frozen=True)
class Reading:
    """What /proc says of a process at one moment; MiB and counts."""

    heap: float
    shared: float
    descriptors: int
    threads: int
    memfds: int

    @classmethod
    def take(cls, pid: int) -> Reading:
        place = Path(f"/proc/{pid}")
        rollup = (place / "smaps_rollup").read_text()
        links = list(_links(place / "fd"))
        return cls(
            heap=_kib(rollup, "Pss_Anon") / 1024,
            shared=_kib(rollup, "Pss_Shmem") / 1024,
            descriptors=len(links),
            threads=len(list((place / "task").iterdir())),
            memfds=sum("memfd:" in link for link in links),
        )


def _links(descriptors: Path) -> Iterator[str]:
    for entry in descriptors.iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield str(entry.readlink())


def _kib(rollup: str, name: str) -> int:
    found = re.search(rf"^{name}: +(\d+) kB", rollup, re.MULTILINE)
    return int(found[1]) if found else 0


#: Each figure: how much more of it in the last quarter is growth.
FIGURES = {
    "heap": MOST_GROWTH,
    "shared": MOST_GROWTH,
    "descriptors": MOST_MORE,
    "threads": MOST_MORE,
    "memfds": MOST_MORE,
}


@dataclass
class Life:
    """One process, measured again and again.

    kept: MiB of heap that it gains by what it is asked to keep, which is no growth.
    """

    name: str
    kept: float = 0.0
    readings: list[tuple[float, Reading]] = field(default_factory=list)

    def quarters(self, figure: str) -> tuple[float, float]:
        """The least of the first and of the last quarter after the warm-up.

        What grows has a least that grows; batches that come and go have none.
        """
        values = [getattr(reading, figure) for _, reading in self._warm]
        part = max(1, len(values) // 4)
        return min(values[:part]), min(values[-part:])

    def slope(self, figure: str) -> float:
        """Of the straight line through all of them, per minute."""
        times = [moment / 60 for moment, _ in self._warm]
        values = [float(getattr(reading, figure)) for _, reading in self._warm]
        return statistics.linear_regression(times, values).slope

    def growths(self) -> list[str]:
        found = []
        for figure, bound in FIGURES.items():
            first, last = self.quarters(figure)
            if last - first > bound + (self.kept if figure == "heap" else 0.0):
                found.append(f"{self.name}: {figure} grew from {first:.1f} to {last:.1f}")
        return found

    @property
    def _warm(self) -> list[tuple[float, Reading]]:
        return self.readings[int(len(self.readings) * WARM_UP) :]


def soak(minutes: float, jobs: int = 0) -> int:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, ExitStack() as stack:
        stop = Path(folder) / "stop"
        hosts = _hosts(Path(folder), stop)
        load = None
        if jobs:
            load = EndpointLoad(Path(folder), jobs, 54 * minutes)
            stack.enter_context(load)
        with running(hosts):
            lives, shared_memory = _watch(hosts, 60 * minutes, load)
            stop.touch()
            codes = hosts.wait()
        left = hosts.processes()
        ranks = re.findall(r"^rank \d+: .*$", hosts.output(), re.MULTILINE)
        growths = [words for life in lives for words in life.growths()]
        growths += [f"{path} is left" for path in sorted(shared_memory) if path.exists()]
        if load:
            load.wait()
            growths += load.problems
        _print_table(lives)
        print("\n".join([*sorted(ranks), *growths]))
        if load:
            print(f"{load.jobs} jobs from {CLIENTS} clients, {len(load.problems)} problems")
        if growths or left or len(ranks) != 2 or set(codes.values()) != {0}:
            print(f"not steady: exit codes {codes}, processes left {left}")
            return 1
    print(f"steady for {minutes:g} minutes")
    return 0


def _hosts(folder: Path, stop: Path) -> Hosts:
    document = JobDocument(
        roles={"data_group": Role.DATA, "train_group": Role.TRAIN},
        trainer=TrainerPart(entry_point="train.py", launch=Launch.PYTHON),
        data=DataPart(
            datasets=("pipeline:small", "pipeline:images"),
            workers_per_host=2,
            prefetch_bytes=PREFETCH,
        ),
        start_timeout=60.0,
    )
    return Hosts(
        folder,
        document,
        {"data_group": 1, "train_group": 2},
        {"pipeline.py": PIPELINE, "train.py": TRAIN},
        environment={"STOP_FILE": str(stop)},
    )


def _watch(
    hosts: Hosts, seconds: float, load: EndpointLoad | None = None
) -> tuple[list[Life], set[Path]]:
    """Measure all data processes and ranks; kill the workers with number 1 from time to time.

    Also returns the named shared memory that any process of the job has mapped.
    """
    lives: dict[int, Life] = {}
    shared_memory: set[Path] = set()
    if load:
        pid = load.endpoint.process.pid
        lives[pid] = Life(f"endpoint ({pid})", kept=load.jobs * KEPT_PER_JOB)
    began = killed = time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        if load:
            endpoint = load.endpoint.process.pid
            lives[endpoint].readings.append((now - began, Reading.take(endpoint)))
        for pid in hosts.processes():
            shared_memory |= _mapped_shared_memory(pid)
            name = _name(pid)
            if name is None:
                continue
            if name.startswith("worker 1"):
                if now - killed > _KILL_EVERY:
                    os.kill(pid, signal.SIGKILL)
                    killed = now
                continue
            with contextlib.suppress(OSError):
                life = lives.setdefault(pid, Life(f"{name} ({pid})"))
                life.readings.append((now - began, Reading.take(pid)))
        if any(host.process and host.process.poll() is not None for host in hosts.hosts.values()):
            raise SystemExit(hosts.output() + "\na host ended before its time")
        time.sleep(_EVERY)  # the rhythm of the measurements
    return [life for life in lives.values() if len(life.readings) > 8], shared_memory


def _mapped_shared_memory(pid: int) -> set[Path]:
    """The files in /dev/shm, semaphores among them, that a process has mapped."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # ended meanwhile
        return set()
    return set(map(Path, re.findall(rf"{_SHARED_MEMORY}/\S+", maps)))


def _name(pid: int) -> str | None:
    """What a process of the job world is, or None for what is not watched."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return None
    module = next((word for word in words if word.startswith("launcher.")), "")
    what = module.rpartition(".")[2]
    if what == "worker":
        return f"worker {words[words.index(module) + 1]}"
    return what if what in ("dispatcher", "receiver", "rank") else None


def _print_table(lives: list[Life]) -> None:
    print(
        f"{'':22}{'heap MiB':>18}{'per minute':>12}{'shared MiB':>18}{'per minute':>12}"
        f"{'descriptors':>14}{'threads':>10}{'memfds':>10}"
    )
    for life in sorted(lives, key=lambda life: life.name):
        cells = [f"{life.name:22}"]
        for figure in ("heap", "shared"):
            first, last = life.quarters(figure)
            cells += [f"{f'{first:.1f} → {last:.1f}':>18}", f"{life.slope(figure):>12.3f}"]
        for figure, width in (("descriptors", 14), ("threads", 10), ("memfds", 10)):
            first, last = life.quarters(figure)
            cells.append(f"{f'{first:.0f} → {last:.0f}':>{width}}")
        print("".join(cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=200)
    chosen = parser.parse_args()
    sys.exit(soak(chosen.minutes, chosen.jobs))

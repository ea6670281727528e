"""Seconds from the start of a local job to its first batch, beside torchrun and torch's DataLoader.

    python benchmarks/first_batch.py [--rounds 7] [--isolation sandbox]

The job has one data host with one worker and one train host with one rank. Beside torchrun, as
many processes import torch and idle as the job has beyond torchrun's own two. The sides run by
turns. The table has when each part of the job begins, and its processor seconds up to the first
batch, those of ended processes apart.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from table.turns import in_turns

_TARGET = 1.5  # seconds beyond torchrun
_FILES = {
    "pipeline.py": """\
import torch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        return torch.full((64,), float(index)), index % 2


def train_set():
    return Rows()
""",
    "train.py": """\
import sys, time
import torch

if "torch" in sys.argv:
    import pipeline
    loader = torch.utils.data.DataLoader(pipeline.train_set(), batch_size=32)
else:
    from launcher.data import DataLoader
    loader = DataLoader("pipeline:train_set", batch_size=32)
next(iter(loader))
print(f"first batch at {time.time():.4f}", flush=True)
time.sleep(2)  # for a look at the processes
""",
    "job.yaml": """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.xlarge, instance_count: 1}
  - {instance_group_name: train_group, instance_type: ml.c5.xlarge, instance_count: 1}
distribution: {data_parallel: {processes_per_host: 1}}
data_service: {datasets: ["pipeline:train_set"], workers_per_host: 1}
""",
}
#: Parts of a job, by what their command lines hold; the first that fits.
_PARTS = {
    "launcher run": "-m launcher run",
    "platform": "platform_process",
    "sandbox": "bwrap",
    "host's init": "launch.py",
    "dispatcher": "launcher.data.dispatcher",
    "receiver": "launcher.data.receiver",
    "data worker": "launcher.data.worker",
    "torchrun": "runtime.launch.torchrun",
    "torch's torchrun": "torch.distributed.run",
    "rank": "train.py",
}
_IDLE = "import torch, time; time.sleep(600)"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Start:
    """A start.

    seconds: to the first batch. begins, cpu: by part. torch: number of processes that have it.
    """

    seconds: float
    begins: dict[str, float]
    cpu: Counter[str]
    torch: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--isolation", default="sandbox", choices=["process", "sandbox", "network"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in _FILES.items():
            (folder / file).write_text(text)
        idle = start_job(folder, options.isolation).torch - 2
        found = in_turns(
            options.rounds,
            {
                "job": lambda: start_job(folder, options.isolation),
                "torchrun": lambda: start_torchrun(folder, idle),
            },
        )
    return show(found, idle)


def start_job(folder: Path, isolation: str) -> Start:
    words = ["-m", "launcher", "run", "job.yaml", "--local", "--isolation", isolation]
    return start(folder, words)


def start_torchrun(folder: Path, idle: int) -> Start:
    others = [subprocess.Popen([sys.executable, "-c", _IDLE]) for _ in range(idle)]
    try:
        words = ["-m", "torch.distributed.run", "--nproc-per-node", "1", "train.py", "torch"]
        return start(folder, words)
    finally:
        for each in others:
            each.kill()
            each.wait()


def start(folder: Path, words: list[str]) -> Start:
    """Start a command, wait for its first batch, look at its processes, and let it end."""
    home = tempfile.mkdtemp(dir=folder)
    began = time.time()
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "LAUNCHER_HOME": home, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    first = _first_batch(process.stdout)
    found = processes(process.pid, home)
    taken = Start(
        seconds=first - began,
        begins=begins_by_part(found, process.pid),
        cpu=cpu_by_part(found),
        torch=sum(map(has_torch, found)),
    )
    process.stdout.read()
    if process.wait() != 0:
        raise SystemExit(f"{words} ended with {process.returncode}")
    return taken


def _first_batch(output: IO[str]) -> float:
    lines = []
    for line in output:
        lines.append(line)
        if when := re.search(r"first batch at ([\d.]+)", line):
            return float(when[1])
    raise SystemExit("no batch came:\n" + "".join(lines))


# Processes -----------------------------------------------------------------------------------


def processes(root: int, home: str) -> list[int]:
    """Return a process, those that name its home, and all below them."""
    parents = {int(path.name): _stat(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = {root} | {pid for pid in parents if home in command_line(pid)}
    while more := {pid for pid, stat in parents.items() if stat and int(stat[1]) in found} - found:
        found |= more
    return sorted(found)


def cpu_by_part(found: list[int]) -> Counter[str]:
    seconds: Counter[str] = Counter()
    for pid in found:
        if stat := _stat(pid):
            seconds[part_of(pid)] += (int(stat[11]) + int(stat[12])) / _TICKS
            seconds["processes that have ended"] += (int(stat[13]) + int(stat[14])) / _TICKS
    return seconds


def begins_by_part(found: list[int], root: int) -> dict[str, float]:
    """Return the seconds from the start of a process to that of the first process of each part."""
    ticks = {pid: int(stat[19]) for pid in found if (stat := _stat(pid))}
    begins: dict[str, float] = {}
    for pid in sorted(ticks, key=ticks.__getitem__):
        begins.setdefault(part_of(pid), (ticks[pid] - ticks[root]) / _TICKS)
    return begins


def part_of(pid: int) -> str:
    line = command_line(pid)
    return next((part for part, words in _PARTS.items() if words in line), "other")


def has_torch(pid: int) -> bool:
    try:
        return "libtorch_cpu" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """Return the fields of a process behind its name: its state, its parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


# The table -----------------------------------------------------------------------------------


def show(found: dict[str, list[Start]], idle: int) -> int:
    beyond = [
        job.seconds - peer.seconds
        for job, peer in zip(found["job"], found["torchrun"], strict=True)
    ]
    rows = {side: [each.seconds for each in starts] for side, starts in found.items()}
    print("| to the first batch | seconds |\n|---|---|")
    for what, values in {**rows, "beyond torchrun": beyond}.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"| {what} | {middle:.2f} ({low:.2f} to {high:.2f}) |")
    print(
        f"\nBeside torchrun, {idle} idle processes import torch; target: <= {_TARGET} s beyond it."
    )
    print("\n| part | begins after, s | processor seconds |\n|---|---|---|")
    for side, starts in found.items():
        for part in [*_PARTS, "other", "processes that have ended"]:
            if used := statistics.median(each.cpu[part] for each in starts):
                begins = [each.begins[part] for each in starts if part in each.begins]
                when = f"{statistics.median(begins):.2f}" if begins else ""
                print(f"| {side}: {part} | {when} | {used:.2f} |")
    return int(statistics.median(beyond) > _TARGET)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise SystemExit(main())

"""The rate of processes that prepare samples at the same time, one for each CPU at most."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from launcher.client.doctor import DatasetCopy, NamedDataset, ReadLimits

#: Part of the limits' seconds that each number of processes is measured for.
_SHARE = 0.1
_POLL_SECONDS = 0.01


def measure_scaling(
    copy: DatasetCopy,
    dataset: NamedDataset,
    limits: ReadLimits,
    served: Sequence[str],
    cpus: int,
) -> Mapping[int, float]:
    """Return the samples a second of 1, 2, 4, ... and as many processes as there are CPUs.

    All prepare the same samples, as a host's workers do. Empty on a machine with one CPU, and for a
    dataset that several processes cannot read at once.
    """
    rounds = worker_counts(cpus)
    if len(rounds) < 2:
        return {}
    folder = copy.paths.root / "rates"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    outputs = [folder / f"worker-{number}" for number in range(cpus)]
    taken = [[count for count in rounds if count > number] for number in range(cpus)]
    each = replace(limits, seconds=limits.seconds * _SHARE)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(copy.started(dataset, each, served, output, "rates", rounds=own))
            for output, own in zip(outputs, taken, strict=True)
        ]
        return _rates(processes, outputs, rounds, limits.patience)


def worker_counts(cpus: int) -> list[int]:
    """Return the numbers of processes to measure.

    >>> worker_counts(12)
    [1, 2, 4, 8, 12]
    """
    return [*(2**power for power in range(cpus.bit_length()) if 2**power < cpus), cpus]


def _rates(
    processes: Sequence[subprocess.Popen[str]],
    outputs: Sequence[Path],
    rounds: Sequence[int],
    patience: float,
) -> dict[int, float]:
    """Begin each round when all are ready, and return the sums of their rates."""
    if not _have_come([Path(f"{output}.ready") for output in outputs], processes, patience):
        return {}
    found = {}
    for count in rounds:
        (outputs[0].parent / f"round-{count}").touch()
        files = [Path(f"{output}.round-{count}") for output in outputs[:count]]
        if not _have_come(files, processes, patience):
            return {}
        found[count] = sum(float(json.loads(file.read_text())) for file in files)
    return found


def _have_come(
    files: Sequence[Path], processes: Sequence[subprocess.Popen[str]], seconds: float
) -> bool:
    """Return whether each of the first processes wrote its file before it or the time ended."""
    until = time.monotonic() + seconds
    for file, process in zip(files, processes, strict=False):
        has_ended = False
        while not file.exists():
            if has_ended or time.monotonic() > until:
                return False
            has_ended = process.poll() is not None  # it may have written the file at its end
            time.sleep(_POLL_SECONDS)
    return True

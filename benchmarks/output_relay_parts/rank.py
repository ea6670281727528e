"""A rank: the first one computes in each step; another prints at a pace until that has ended."""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

from launcher.runtime import print_whole_lines
from output_relay_parts.work import LINES, Measured, compute

_WARM_UP_STEPS = 20
#: Seconds from one step to the next of a rank that only prints: more than 100,000 lines a second.
_PACE_SECONDS = 0.95 * LINES / 100_000
_LINE = "step {} of this epoch: loss 0.6931, accuracy 0.5000, 12.5 samples a second"


def main(folder: Path, number: int, steps: int, blocks: int, lines: int) -> None:
    print_whole_lines()  # as ranks do
    measured = _paced(folder, lines) if number else _computed(steps + _WARM_UP_STEPS, blocks, lines)
    (folder / f"rank-{number}.json").write_text(json.dumps(asdict(measured)))


def _computed(steps: int, blocks: int, lines: int) -> Measured:
    seconds = []
    for _ in range(steps):
        started = time.perf_counter()
        compute(blocks)
        _print(lines)
        seconds.append(time.perf_counter() - started)
    step = statistics.median(seconds[_WARM_UP_STEPS:])
    return Measured(step=step, lines=steps * lines, lines_a_second=lines / step)


def _paced(folder: Path, lines: int) -> Measured:
    started, steps = time.perf_counter(), 0
    while not (folder / "over").exists():
        _print(lines)
        steps += 1
        time.sleep(max(0.0, started + steps * _PACE_SECONDS - time.perf_counter()))
    seconds = time.perf_counter() - started
    return Measured(
        step=seconds / steps, lines=steps * lines, lines_a_second=steps * lines / seconds
    )


def _print(lines: int) -> None:
    for line in range(lines):
        print(_LINE.format(line))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))

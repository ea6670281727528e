"""What the loader costs, without a data group and with one, against torch's DataLoader.

Usage: python benchmarks/loader.py [--rounds 15] [--cpu] [--only "one int"] [--json FILE]

Seven workloads are read by both, by turns: the ratio of each round, its median and quartiles.
In process and with two workers this is the process; "served" is the rank of a local job with one
data host, against torch's DataLoader with 0 workers in that rank, by elapsed time. Then
the loader's own cost is separated into a part for each batch and one for each sample, from batches
of 1 and of 33 samples that cost nothing. "Two cores that only seed and read" is the limit of two
workers: what seeding the samples and torch without workers take, on two cores. --cpu measures this
process's CPU time, for machines where other work runs. The targets: at least 0.9x where a sample
takes 50 us or more, at most 20 us for each batch beside what seeding the samples takes, and 1.5x
with two workers for batches under 1 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from launcher.data import DataLoader, LoaderOptions
from launcher.data.repeatable import preserve_random_states, seeding
from loader_parts.served import measure_served
from loader_parts.workloads import WORKLOADS, Workload, seconds, torchs
from table.turns import in_turns

#: This loader's ways, and what each is compared with.
PEERS = {
    "sample": "torch",
    "worker": "torch",
    "2 workers": "torch, 2 workers",
    "2 workers, unseeded": "torch, 2 workers",
    "limit": "torch, 2 workers",
}
_WORKERS = 2
#: Reading with workers takes so many epochs' batches, as they prepare the first ones beforehand.
_LONGER = 4
_SERVED, _SERVED_PEER = "served", "torch, in the job"


def ours(work: Workload, **arguments: Any) -> Any:
    return DataLoader(work, work.batch_size, collate_fn=work.collate_fn, **arguments)


def compare(work: Workload, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Times as fast as torch, by round; and the seconds of torch for each sample."""
    long = dataclasses.replace(work, batches=_LONGER * work.batches)
    found = in_turns(
        rounds,
        {
            "torch": lambda: seconds(torchs(work), clock),
            "sample": lambda: seconds(ours(work), clock),
            "worker": lambda: seconds(ours(work, options=LoaderOptions(seeding="worker")), clock),
            "torch, 2 workers": lambda: seconds(torchs(long, _WORKERS), time.perf_counter),
            "2 workers": lambda: seconds(ours(long, workers=_WORKERS), time.perf_counter),
            "2 workers, unseeded": lambda: seconds(
                ours(long, workers=_WORKERS, options=LoaderOptions(seeding="worker")),
                time.perf_counter,
            ),
            "limit": lambda: _limit(long),
        },
    )
    count = work.batch_size * work.batches
    return {
        "us of torch for a sample": 1e6 * statistics.median(found["torch"]) / count,
        **{name: times_as_fast(found[peer], found[name]) for name, peer in PEERS.items()},
    }


def times_as_fast(peer: list[float], own: list[float]) -> tuple[float, float, float]:
    return quartiles([a / b for a, b in zip(peer, own, strict=True)])


def quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return middle, low, high


def costs(rounds: int, clock: Callable[[], float]) -> dict[str, tuple[float, float, float]]:
    """Microseconds for each batch and for each sample, and those of seeding a sample."""
    one = Workload(sample=lambda index: index, batch_size=1, batches=200)
    many = Workload(sample=lambda index: index, batch_size=33, batches=40)
    found = in_turns(
        rounds,
        {
            "one": lambda: 1e6 * seconds(ours(one), clock) / one.batches,
            "many": lambda: 1e6 * seconds(ours(many), clock) / many.batches,
            "seeding": lambda: 1e6 * _seeding(clock),
        },
    )
    samples = [(b - a) / 32 for a, b in zip(found["one"], found["many"], strict=True)]
    batches = [a - each for a, each in zip(found["one"], samples, strict=True)]
    return {
        "for each batch": quartiles(batches),
        "for each sample": quartiles(samples),
        "of it, seeding": quartiles(found["seeding"]),
    }


def _limit(work: Workload) -> float:
    """Seconds of as many cores as workers that seed and read the samples, and do nothing else."""
    clock = time.perf_counter
    seeded = _seeding(clock) * work.batch_size * work.batches
    return (seeded + seconds(torchs(work), clock)) / _WORKERS


def _seeding(clock: Callable[[], float], count: int = 500) -> float:
    with preserve_random_states():
        started = clock()
        for position in range(count):
            seeding.seed_everything(seeding.sample_seed(0, 0, position))
        return (clock() - started) / count


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the loader's events, which each epoch writes to stderr."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu", action="store_true", help="CPU time where no workers are")
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS), help="some workloads")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    with quiet():
        rows = {
            name: compare(work, options.rounds, clock)
            for name, work in WORKLOADS.items()
            if name in options.only
        }
        parts = costs(options.rounds, clock)
        for name, found in measure_served(list(rows), options.rounds).items():
            rows[name][_SERVED] = times_as_fast(found[_SERVED_PEER], found[_SERVED])
    ways = ["in process", "seeding='worker'", "2 workers against 2"]
    ways += ["the same, seeding='worker'", "two cores that only seed and read", "served"]
    print(f"| workload | torch, us a sample | {' | '.join(ways)} |")
    print(f"|{'---|' * (len(ways) + 2)}")
    for name, row in rows.items():
        ratios = ["{:.2f}x ({:.2f} to {:.2f})".format(*row[each]) for each in (*PEERS, _SERVED)]
        print(f"| {name} | {row['us of torch for a sample']:.1f} | {' | '.join(ratios)} |")
    for name, part in parts.items():
        print("us {}: {:.1f} ({:.1f} to {:.1f})".format(name, *part))
    if options.json:
        options.json.write_text(json.dumps({"workloads": rows, "costs": parts}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

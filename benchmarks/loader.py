"""What the loader costs without a data group, against torch's DataLoader: 0 and 2 workers.

Usage: python benchmarks/loader.py [--rounds 15] [--cpu] [--json FILE]

Seven workloads are read by both, by turns: the ratio of each round, its median and quartiles. Then
the loader's own cost is separated into a part for each batch and one for each sample, from batches
of 1 and of 33 samples that cost nothing. --cpu measures this process's CPU time, for machines where
other work runs. The targets: at least 0.9x where a sample takes 50 us or more, and at most 20 us
for each batch beside what seeding the samples takes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from launcher.data import DataLoader
from launcher.data.order import seeding
from table.turns import in_turns

#: Batches that are read before the clock starts.
_WARM_UP = 2


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Samples of one kind. batches: how many a measurement reads."""

    sample: Callable[[int], Any]
    batch_size: int
    batches: int
    collate_fn: Callable[[list[Any]], Any] | None = None

    def __len__(self) -> int:
        return self.batch_size * (self.batches + _WARM_UP)

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


def _padded(samples: list[Any]) -> Any:
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


def _as_given(samples: list[Any]) -> list[Any]:
    return samples


def _image(index: int) -> torch.Tensor:
    pixels = torch.randint(0, 256, (3, 224, 224), dtype=torch.uint8)
    return pixels.float().div_(255).sub_(0.5)


_KILOBYTE = torch.zeros(256)
_LARGE = torch.zeros(4 << 20)  # 16 MiB
WORKLOADS = {
    "1 kB x 32": Workload(sample=lambda _: _KILOBYTE, batch_size=32, batches=60),
    "one int": Workload(sample=lambda index: index, batch_size=1, batches=300),
    "2048 tokens x 8": Workload(
        sample=lambda index: torch.randint(0, 50_000, (2048,)), batch_size=8, batches=60
    ),
    "224x224 images x 64": Workload(sample=_image, batch_size=64, batches=2),
    "500 MB": Workload(sample=lambda _: _LARGE, batch_size=30, batches=1),
    "padded x 32": Workload(
        sample=lambda index: torch.ones(1 + index * 7 % 512),
        batch_size=32,
        batches=40,
        collate_fn=_padded,
    ),
    "ragged x 32": Workload(
        sample=lambda index: list(range(index % 64)),
        batch_size=32,
        batches=60,
        collate_fn=_as_given,
    ),
}


#: This loader's ways, and what each is compared with.
PEERS = {"sample": "torch", "worker": "torch", "2 workers": "torch, 2 workers"}


def seconds(loader: Any, clock: Callable[[], float]) -> float:
    """Seconds to read all batches but the first ones."""
    batches = iter(loader)
    for _ in range(_WARM_UP):
        next(batches)
    started = clock()
    for _ in batches:
        pass
    return clock() - started


def ours(work: Workload, **arguments: Any) -> Any:
    return DataLoader(work, work.batch_size, collate_fn=work.collate_fn, **arguments)


def torchs(work: Workload, num_workers: int = 0) -> Any:
    return torch.utils.data.DataLoader(
        work, work.batch_size, collate_fn=work.collate_fn, num_workers=num_workers
    )


def compare(work: Workload, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Times as fast as torch, by round; and the seconds of torch for each sample."""
    found = in_turns(
        rounds,
        {
            "torch": lambda: seconds(torchs(work), clock),
            "sample": lambda: seconds(ours(work), clock),
            "worker": lambda: seconds(ours(work, seeding="worker"), clock),
            "torch, 2 workers": lambda: seconds(torchs(work, 2), time.perf_counter),
            "2 workers": lambda: seconds(ours(work, workers=2), time.perf_counter),
        },
    )
    count = work.batch_size * work.batches
    return {
        "us of torch for a sample": 1e6 * statistics.median(found["torch"]) / count,
        **{
            name: quartiles([a / b for a, b in zip(found[peer], found[name], strict=True)])
            for name, peer in PEERS.items()
        },
    }


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


def _seeding(clock: Callable[[], float], count: int = 500) -> float:
    with seeding.preserve_random_states():
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
    print("| workload | torch, us a sample | in process | seeding='worker' | 2 workers against 2 |")
    print("|---|---|---|---|---|")
    for name, row in rows.items():
        ratios = ["{:.2f}x ({:.2f} to {:.2f})".format(*row[each]) for each in PEERS]
        print(f"| {name} | {row['us of torch for a sample']:.1f} | {' | '.join(ratios)} |")
    for name, part in parts.items():
        print("us {}: {:.1f} ({:.1f} to {:.1f})".format(name, *part))
    if options.json:
        options.json.write_text(json.dumps({"workloads": rows, "costs": parts}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

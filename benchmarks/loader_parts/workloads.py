"""The seven workloads, their readers and the clock, for the benchmark and for its job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

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


def padded(samples: list[Any]) -> Any:
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


def as_given(samples: list[Any]) -> list[Any]:
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
    "500 MB": Workload(sample=lambda _: _LARGE, batch_size=30, batches=3),
    "padded x 32": Workload(
        sample=lambda index: torch.ones(1 + index * 7 % 512),
        batch_size=32,
        batches=40,
        collate_fn=padded,
    ),
    "ragged x 32": Workload(
        sample=lambda index: list(range(index % 64)),
        batch_size=32,
        batches=60,
        collate_fn=as_given,
    ),
}


def dataset(name: str) -> Workload:
    """Return the dataset of a workload, for data hosts."""
    return WORKLOADS[name]


def torchs(work: Workload, num_workers: int = 0) -> Any:
    return torch.utils.data.DataLoader(
        work, work.batch_size, collate_fn=work.collate_fn, num_workers=num_workers
    )


def seconds(loader: Any, clock: Callable[[], float]) -> float:
    """Seconds to read all batches but the first ones."""
    batches = iter(loader)
    for _ in range(_WARM_UP):
        next(batches)
    started = clock()
    for _ in batches:
        pass
    return clock() - started

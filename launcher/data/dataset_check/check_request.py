"""Request to check a dataset, and the answer, as JSON between two processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """A request to read the first `samples` of a dataset, for `seconds` at most.

    loader: arguments of the loader that are known: batch_size, shards, and the references of
    collate_fn, sampler and batch_sampler.
    patience: seconds after which a dataset that does not answer has hung.
    served: the datasets that the job lists. output: the file for the answer. rounds: numbers of
    processes that prepare samples at the same time, this one among them.
    """

    dataset: str
    samples: int
    seconds: float
    patience: float
    served: list[str]
    entry_point: str | None
    output: str
    loader: Mapping[str, Any] = field(default_factory=dict)
    rounds: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class SampleCosts:
    """The resources that one process used to prepare samples.

    build_seconds: to import and build the dataset. first_seconds: of the first sample, which often
    opens files. cpu: seconds of each other sample. wall: seconds of these together, of which
    starved without a CPU that they wanted. bytes: of all these samples. batches: the samples, CPU
    seconds, seconds less those starved, and bytes of each whole batch. children_cpu: CPU seconds of
    processes that the dataset started. memory: peak resident bytes of the process.
    """

    build_seconds: float = 0.0
    first_seconds: float = 0.0
    cpu: list[float] = field(default_factory=list)
    wall: float = 0.0
    starved: float = 0.0
    bytes: int = 0
    batches: list[tuple[int, float, float, int]] = field(default_factory=list)
    children_cpu: float = 0.0
    memory: int = 0


@dataclass(kw_only=True)
class CheckAnswer:
    """The findings about a dataset, as far as it was read.

    length: None if unknown. batch: the parts of the first one. collated_by: the collate_fn that
    made it. not_collated: why samples do not make a batch. orders: what a sampler gives. samples:
    how many were read, in so many seconds. compared: samples that were prepared again. differs:
    what was different then. problem: what went wrong, with the user's traceback on the lines below.
    costs: of its samples, where these were asked for.
    """

    length: int | None = None
    iterable: bool = False
    shards: int = 1
    batch: list[str] = field(default_factory=list)
    batch_size: int = 0
    collated_by: str = ""
    not_collated: str = ""
    orders: list[str] = field(default_factory=list)
    samples: int = 0
    seconds: float = 0.0
    compared: int = 0
    differs: str = ""
    problem: str = ""
    costs: SampleCosts | None = None

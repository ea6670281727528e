"""Options of a loader that few scripts need, in one value."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ParamSpec

from launcher.data.given_code import whole
from launcher.data.order import OnError, OnNondeterminism, Seeding, Uneven
from launcher.data.torch_samplers import TorchSampler
from launcher.errors import DataError
from launcher.shared import STREAM_WORLD_VARIABLE

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """Options of a `DataLoader`, beside its arguments.

    >>> from launcher.data import DataLoader, LoaderOptions
    >>> options = LoaderOptions(verify=1.0, on_error="skip")
    >>> loader = DataLoader("pipeline:train_set", options=options)   # doctest: +SKIP

    uneven: "pad" (default), "drop" or "error", when the last step does not divide among the ranks;
        every rank always has the same number of steps.
    on_error: "raise" (default) when a sample raises, or "skip": leave it out of its batch.
    seeding: "sample" (default) seeds random numbers for each sample, so that a sample is the same
        wherever it is prepared; "worker" seeds each process once, as torch does, which is quicker
        by the 10 to 20 microseconds that seeding takes for a sample. Batches of datasets that draw
        random numbers then differ between runs and clusters, and after a resumption.
    on_nondeterminism: "error" or "warn" when samples that are prepared again differ, as after the
        loss of a worker; by default, an error of an iterable dataset and a warning of a map-style
        one.
    verify: share of the batches of a map-style dataset, from 0 to 1, that are prepared a second
        time, by another worker if there is one, and compared; by default the first three of each
        rank in the first epoch.
    rank, world_size: this reader's share; by default RANK and WORLD_SIZE as torchrun sets them.
        world_size=1 reads everything, on one rank or on each.
    types: NamedTuples, dataclasses and enums that batches hold and that are not of the job's own
        code; those are known once the script has imported them. Data hosts send the names of
        classes, and nothing is imported because of a name. For other classes see `register_codec`.
    steps: the batches of each rank in an epoch of an iterable dataset; by default, all that it has.
        Several ranks need it, or a dataset with a `__len__`.
    allow_empty: an epoch without a batch, an error by default, is read as one.
    """

    uneven: Uneven = "pad"
    on_error: OnError = "raise"
    seeding: Seeding = "sample"
    on_nondeterminism: OnNondeterminism | None = None
    verify: float | None = None
    rank: int | None = None
    world_size: int | None = None
    types: Sequence[type] = ()
    steps: int | None = None
    allow_empty: bool = False

    def share(self, sampler: TorchSampler) -> tuple[int, int]:
        """Return this reader's rank and world size: given, or the sampler's, or the process's."""
        rank, world = sampler.share(self.rank, self.world_size)
        own = int(os.environ.get("RANK", 0)) if rank is None else whole("rank", rank)
        if world is None:
            ranks = os.environ.get("WORLD_SIZE", "1")
            return own, int(os.environ.get(STREAM_WORLD_VARIABLE, ranks))
        return (0 if world == 1 and rank is None else own), whole("world_size", world)


#: Their names, which are no arguments of a loader.
OPTION_NAMES = frozenset(field.name for field in fields(LoaderOptions))


def refuse_options(init: Callable[P, None]) -> Callable[P, None]:
    """Refuse options that are given to a loader as arguments, with the place where they belong."""

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        if given := [name for name in kwargs if name in OPTION_NAMES]:
            values = ", ".join(f"{name}={kwargs[name]!r}" for name in given)
            raise DataError(
                f"{', '.join(given)} of a DataLoader {'is' if len(given) == 1 else 'are'} given in "
                f"its options: DataLoader(..., options=launcher.data.LoaderOptions({values}))"
            )
        init(*args, **kwargs)

    return checked

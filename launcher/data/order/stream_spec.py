"""A batch stream's specification: everything its ranks must agree on."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from launcher.data.order import user_code
from launcher.errors import DataError

Uneven = Literal["pad", "drop", "error"]
Seeding = Literal["sample", "worker"]
OnError = Literal["raise", "skip"]
OnNondeterminism = Literal["error", "warn"]
#: The fields that name functions of the user's, besides the dataset.
FUNCTIONS = ("sampler", "batch_sampler", "collate_fn", "worker_init_fn")


@dataclass(frozen=True, kw_only=True)
class StreamSpec:
    """A stream of batches, described by names and numbers alone so that it can be sent.

    name: of the stream; by default that of its dataset.
    dataset: a reference, "module:function", with its arguments (see `dataset_arguments`).
    batch_size: samples per rank and step, or None for samples one by one, not collated.
    drop_last: leave out the last, incomplete step of an epoch.
    uneven: what to do when an incomplete last step does not divide among the ranks: "pad" repeats
        samples from the start of the order, "drop" leaves samples out, "error" refuses.
    sampler, batch_sampler, collate_fn: references to functions.
    in_order: whether batches arrive in the order of their steps, or as they are ready.
    on_error: "raise" when a sample raises, or "skip" it.
    shards, steps: for an iterable dataset, the number of parts in which it is read, and the batches
        of each rank in an epoch.
    allow_empty: an epoch without a batch is no error.
    allow_pickle: what batches hold and has no codec is pickled.
    worker_init_fn: reference to a function of the shard's number, called before a dataset is read.
    seeding: "sample" seeds the random numbers of each sample by its position; "worker" those of
        each process once, as torch does, so that batches depend on the processes.
    on_nondeterminism: "error" or "warn" when a dataset gives other samples when it is read again;
        None: an error of an iterable dataset, a warning of a map-style one.
    verify: share of the batches of a map-style dataset that are prepared twice and compared; None:
        the first ones of the first epoch.

    Raises one DataError that names all problems.
    """

    name: str
    dataset: str
    batch_size: int | None = 1
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = False
    uneven: Uneven = "pad"
    sampler: str | None = None
    batch_sampler: str | None = None
    collate_fn: str | None = None
    in_order: bool = True
    on_error: OnError = "raise"
    shards: int = 1
    steps: int | None = None
    allow_empty: bool = False
    worker_init_fn: str | None = None
    seeding: Seeding = "sample"
    on_nondeterminism: OnNondeterminism | None = None
    verify: float | None = None
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        problems = [*_wrong_values(self), *_wrong_functions(self), *_contradictions(self)]
        if problems:
            raise DataError("\n".join(problems))

    @functools.cached_property
    def share(self) -> int:
        """Positions in the epoch's order that a rank takes in a full step."""
        return self.batch_size or 1

    @functools.cached_property
    def collates(self) -> bool:
        """True if samples are collated to batches."""
        return self.batch_size is not None

    @functools.cached_property
    def is_sampled(self) -> bool:
        """True if a user's function determines the order."""
        return (self.sampler or self.batch_sampler) is not None

    @functools.cached_property
    def sending(self) -> dict[str, bool]:
        """Arguments with which batches are disassembled."""
        return {"allow_pickle": self.allow_pickle, "converts": self.collate_fn is None}

    def differences(self, other: StreamSpec) -> dict[str, tuple[Any, Any]]:
        """Return the fields in which two specifications differ."""
        return {
            field.name: pair
            for field in fields(self)
            if (pair := (getattr(self, field.name), getattr(other, field.name)))[0] != pair[1]
        }


def _wrong_values(spec: StreamSpec) -> Iterator[str]:
    size = spec.batch_size
    if size is not None and (not isinstance(size, int) or size < 1):
        yield f"batch_size is {size!r}; it must be at least 1, or None for samples one by one"
    if not isinstance(spec.seed, int):
        yield f"seed is {spec.seed!r}; it must be an int"
    for name, number in (("shards", spec.shards), ("steps", spec.steps)):
        if number is not None and (not isinstance(number, int) or number < 1):
            yield f"{name} is {number!r}; it must be at least 1"
    if spec.verify is None:
        pass
    elif isinstance(spec.verify, bool) or not isinstance(spec.verify, (int, float)):
        yield f"verify is {spec.verify!r}; it must be a number from 0 to 1"
    elif not 0 <= spec.verify <= 1:
        yield f"verify is {spec.verify}; it must be from 0, for no batch, to 1, for all"
    words = {
        "uneven": Uneven,
        "on_error": OnError,
        "seeding": Seeding,
        "on_nondeterminism": OnNondeterminism,
    }
    for name, kind in words.items():
        word, can_be_none = getattr(spec, name), name == "on_nondeterminism"
        if word not in get_args(kind) and not (word is None and can_be_none):
            yield f"{name} is {word!r}; it must be one of {get_args(kind)}"


def _wrong_functions(spec: StreamSpec) -> Iterator[str]:
    if not isinstance(spec.dataset, str):
        yield (
            f"a dataset is named, as in 'pipeline:train_set', so that data hosts can build it too; "
            f"got a {type(spec.dataset).__name__}"
        )
        return
    home = spec.dataset.partition(":")[0]
    for what in FUNCTIONS:
        function = getattr(spec, what)
        if function is not None and (problem := _wrong_function(function, what, home)):
            yield problem


def _wrong_function(function: object, what: str, home: str) -> str | None:
    """Return the problem with a function reference, if any."""
    if not isinstance(function, str):
        name = getattr(function, "__name__", "function")
        return (
            f"a {what} is named, as in '{home}:{name}', so that data hosts can call it too; "
            f"got a {type(function).__name__}: define it in the module {home}, at its top level"
        )
    try:
        user_code.split(function, what)
    except DataError as error:
        return str(error)
    return None


def _contradictions(spec: StreamSpec) -> Iterator[str]:
    """Yield the settings that exclude each other, as in torch's DataLoader."""
    if spec.batch_sampler is not None:
        given = {
            "batch_size": spec.batch_size != 1,
            "shuffle": spec.shuffle,
            "sampler": spec.sampler is not None,
            "drop_last": spec.drop_last,
        }
        if both := [name for name, is_given in given.items() if is_given]:
            yield (f"batch_sampler excludes {', '.join(both)}: it returns whole batches, in order")
    elif spec.sampler is not None and spec.shuffle:
        yield (
            "sampler excludes shuffle: let the sampler shuffle, which is given the epoch and seed, "
            "and leave shuffle out"
        )
    if spec.verify and spec.seeding == "worker":
        yield (
            f"verify={spec.verify}: with seeding='worker' a batch that is prepared again draws "
            "other random numbers, so none is compared: leave it out"
        )
    if spec.batch_size is None:
        if spec.drop_last:
            yield "batch_size=None excludes drop_last: samples one by one have no incomplete batch"
        if spec.on_error == "skip":
            yield (
                "batch_size=None excludes on_error='skip': a skipped sample would be a missing "
                "step, and all ranks need the same steps; choose a batch_size"
            )

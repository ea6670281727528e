"""Checks that a partition file agrees with itself, since people may edit it."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from launcher.errors import ParallelError
from launcher.shared import OBJECTIVES, PRECISIONS, SCHEDULES
from launcher.shared.partitions.stage_predictions import play, predict_stages

if TYPE_CHECKING:
    from launcher.shared.partitions.partition_file import PartitionFile


#: Relative difference of numbers that were worked out in another order.
_ROUNDING = 1e-6
#: A step of so many is predicted in a second.
_MOST_MICROBATCHES = 10_000


def contradictions(partition: PartitionFile) -> Iterator[str]:
    """Yield what in a file cannot be, or does not follow from the rest of it."""
    found = [*_settings(partition), *_numbers(partition)]
    yield from found
    if not found:
        yield from _orders(partition)


def _settings(partition: PartitionFile) -> Iterator[str]:
    for name in ("partitions", "virtual_stages", "microbatches", "replicas", "shard_degree"):
        if getattr(partition, name) < 1:
            yield f"{name} is {getattr(partition, name)}, and at least 1 is needed"
    if partition.microbatches > _MOST_MICROBATCHES:
        yield f"microbatches is {partition.microbatches}, and {_MOST_MICROBATCHES:,} are the most"
    if partition.shard_degree > 1 and partition.replicas % partition.shard_degree:
        yield (
            f"shard_degree is {partition.shard_degree}, which does not divide the "
            f"{partition.replicas} replicas"
        )
    for name, known in (("objective", OBJECTIVES), ("schedule", SCHEDULES)):
        if getattr(partition, name) not in known:
            yield f"{name} is {getattr(partition, name)!r}, and not one of {', '.join(known)}"
    if partition.precision not in (None, *PRECISIONS):
        yield f"precision is {partition.precision!r}, and not one of {', '.join(PRECISIONS)}"


def _numbers(partition: PartitionFile) -> Iterator[str]:
    """Yield numbers of modules that do not exist, and rates that cannot be."""
    if partition.link.bandwidth == 0:
        yield "link.bandwidth is 0, and no limit is null"
    count = len(partition.modules)
    for number, joint in enumerate(partition.joints):
        if not 0 <= joint.first < joint.second < count:
            yield f"joints[{number}] is of modules {joint.first} and {joint.second} of {count}"
    for number, tie in enumerate(partition.ties):
        modules = list(tie.modules)
        if len(modules) < 2 or sorted(set(modules)) != modules or modules[0] < 0:
            yield f"ties[{number}].modules is {modules}, and not two or more numbers in order"
        elif modules[-1] >= count:
            yield f"ties[{number}] is of module {modules[-1]} of {count}"


def _orders(partition: PartitionFile) -> Iterator[str]:
    """Yield what is wrong with the stages."""
    try:
        orders = partition.orders
    except ParallelError as error:
        yield str(error)
        return
    if len(partition.starts) != orders.stages - 1:
        each = f" x {partition.virtual_stages}" if partition.virtual_stages > 1 else ""
        yield (
            f"there are {len(partition.starts)} starts, and {partition.partitions}{each} stages "
            f"need {orders.stages - 1}"
        )
        return
    yield from _predictions(partition)


def _predictions(partition: PartitionFile) -> Iterator[str]:
    """Yield predictions that do not follow from the modules, unless other starts were edited in."""
    stages = predict_stages(partition.costs, partition.orders, partition.places)
    if [each.start for each in partition.stages] != [each.start for each in stages]:
        return
    for number, (said, found) in enumerate(zip(partition.stages, stages, strict=True)):
        for each in fields(found):
            has, follows = getattr(said, each.name), getattr(found, each.name)
            if each.name != "start" and not _are_close(has, follows, partition.step):
                yield (
                    f"stages[{number}].{each.name} is {has}, and {follows} follows from its modules"
                )
    step = play(partition.costs, partition.orders, partition.places, stages).seconds
    if not _are_close(partition.step, step, partition.step):
        yield f"step is {partition.step}, and {step} follows from its stages"
    elif partition.bound is not None:
        gap = partition.step / partition.bound - 1 if partition.bound else 0.0
        if abs(partition.gap - gap) > _ROUNDING:
            yield f"gap is {partition.gap}, and {gap} follows from its step and its bound"


def _are_close(one: float, other: float, step: float) -> bool:
    small = 0.0 if isinstance(other, int) else _ROUNDING * step
    return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=small)


#: No bytes, seconds, rates or counts reach it; beyond, floats and their sums overflow.
_LARGEST = 1 << 63


def misfits(value: Any, place: str = "") -> Iterator[str]:
    """Yield the fields of a dataclass that have another type, as "modules[2].forward is '4'"."""
    for name, declared in _types(value.__class__).items():
        yield from _misfits(declared, getattr(value, name), f"{place}{name}")


@functools.cache
def _types(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _misfits(declared: object, value: object, place: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is tuple and isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from _misfits(arguments[0], each, f"{place}[{number}]")
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        for key, each in value.items():  # JSON's keys are strings
            yield from _misfits(arguments[1], each, f"{place}[{key!r}]")
    elif dataclasses.is_dataclass(declared) and type(value) is declared:
        yield from misfits(value, f"{place}.")
    elif not _fits(declared, value):
        yield f"{place} is {value!r}"


def _fits(declared: Any, value: Any) -> bool:
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        return any(_fits(each, value) for each in typing.get_args(declared))
    if declared is float:  # seconds, rates and fractions; Python's JSON parser accepts NaN
        return type(value) in (int, float) and 0 <= value < _LARGEST
    # A bool is not accepted as an int.
    return type(value) is declared and (declared is not int or abs(value) < _LARGEST)

"""The arithmetic of data-parallel training, in one place.

A replica is one copy of the model, so one trainer process; the global batch is what all replicas
consume in one step. Source: the concepts of
https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-training.html
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from launcher import catalogue
from launcher.errors import Problem, SpecError
from launcher.spec.groups import InstanceGroup


def cluster_size(groups: Iterable[InstanceGroup]) -> int:
    """Accelerators of the groups, in all; a type that the catalogue does not know counts none.

    >>> cluster_size([InstanceGroup("train", "ml.p3.8xlarge", 2)])
    8
    """
    return sum(
        known.accelerators * group.instance_count
        for group in groups
        if (known := catalogue.find(group.instance_type))
    )


def global_batch(replicas: int, per_replica: int) -> int:
    """Samples that one step consumes.

    >>> global_batch(8, 32)
    256
    """
    return _positive("replicas", replicas) * _positive("per-replica batch size", per_replica)


def per_replica_batch(global_batch: int, replicas: int) -> int:
    """Samples that each replica consumes in one step.

    Raises SpecError where the global batch does not divide evenly.

    >>> per_replica_batch(64, 32)
    2
    """
    each, rest = divmod(
        _positive("global batch size", global_batch), _positive("replicas", replicas)
    )
    if rest:
        lower, upper = max(1, each) * replicas, (each + 1) * replicas
        raise _error(
            f"a global batch of {global_batch} cannot be divided evenly among {replicas} replicas",
            where="global batch size",
            fix=f"use {upper}" if lower >= global_batch else f"use {lower} or {upper}",
        )
    return each


def iterations_per_epoch(samples: int, global_batch: int) -> int:
    """Steps in which every sample is seen once; the last one may be short.

    >>> iterations_per_epoch(5000, 500)
    10
    """
    return math.ceil(_positive("samples", samples) / _positive("global batch size", global_batch))


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise _error(f"{name} is {value}", where=name, fix="use 1 or more")
    return value


def _error(what: str, *, where: str, fix: str) -> SpecError:
    return SpecError([Problem(what=what, where=where, fix=fix)])

"""Arithmetic of data-parallel training.

A replica is one copy of the model, and so one trainer process. The global batch is what all
replicas consume in one step. The concepts are those of
https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-training.html
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from launcher.client import catalogue
from launcher.client.spec.groups import InstanceGroup
from launcher.errors import Problem, SpecError


def cluster_size(groups: Iterable[InstanceGroup]) -> int:
    """Return the total number of accelerators; a type missing from the catalogue counts as none.

    >>> cluster_size([InstanceGroup("train", "ml.p3.8xlarge", 2)])
    8
    """
    return sum(
        known.accelerators * group.instance_count
        for group in groups
        if (known := catalogue.find(group.instance_type))
    )


def global_batch(replicas: int, per_replica: int) -> int:
    """Return the samples consumed in one step.

    >>> global_batch(8, 32)
    256
    """
    return _positive("replicas", replicas) * _positive("per-replica batch size", per_replica)


def per_replica_batch(global_batch: int, replicas: int) -> int:
    """Return the samples that each replica consumes in one step.

    Raises SpecError if the global batch does not divide evenly.

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
    """Return the steps needed to see every sample once; the last step may be short.

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

"""Rules for measured pipeline cuts: a partition file, or auto_partition at job start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Set
from pathlib import PurePath
from typing import TYPE_CHECKING

from launcher.client.spec.distributions import pipeline_rules
from launcher.client.spec.field_checks import range_problems, word_problems
from launcher.errors import FieldPath, ParallelError, Problem
from launcher.shared import OBJECTIVES, shown

if TYPE_CHECKING:
    from launcher.client.spec.distributions.model_parallel import ModelParallel
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.rules.source_rules import SourceFiles
    from launcher.shared import PartitionFile

#: Settings that the partition file provides where the job leaves them unset.
OF_PARTITIONS = (
    "partitions",
    "microbatches",
    "virtual_stages",
    "schedule",
    "precision",
    "recomputed",
)
_MODEL: FieldPath = ("distribution", "model_parallel")
_FILE: FieldPath = (*_MODEL, "partition_file")
_BY_HAND = ("starts", "stages", "default_stage")


def find_problems(model: ModelParallel) -> Iterator[Problem]:
    """Find problems with the settings of the cuts that do not depend on the file."""
    if model.partition_file is not None:
        yield from _problems_beside(model, "partition_file", (*_BY_HAND, "auto_partition"))
    elif model.auto_partition:
        yield from _problems_beside(model, "auto_partition", _BY_HAND)
    if model.partition_file == "":
        fix = "name a file that `launcher plan cut` has made, or remove it"
        yield Problem(path=_FILE, what="partition_file is empty", fix=fix)
    if not model.auto_partition:
        yield from _problems_of_nothing_to_find(model)
    yield from word_problems((*_MODEL, "optimize"), model.optimize, OBJECTIVES)
    if model.memory_cap is not None:
        yield from range_problems((*_MODEL, "memory_cap"), model.memory_cap, 1)


def find_problems_in(
    spec: JobSpec, model: ModelParallel, files: SourceFiles, wrong: Set[FieldPath]
) -> Iterator[Problem]:
    """Find problems with the partition file, except those about fields in `wrong`."""
    try:
        partition = files.partition
    except ParallelError as error:
        fix = "name a file that `launcher plan cut` has made"
        yield Problem(path=_FILE, what=str(error), fix=fix)
        return
    if partition is not None:
        found = list(_differences(model, partition)) or _problems_of_the_whole(
            spec, model, partition
        )
        yield from (each for each in found if not each.depends_on(wrong))


def _differences(model: ModelParallel, partition: PartitionFile) -> Iterator[Problem]:
    """Find settings that differ between the job and the file."""
    for name in OF_PARTITIONS:
        said, has = getattr(model, name), getattr(partition, name)
        if said not in (None, (), has):
            yield Problem(
                path=(*_MODEL, name),
                about=(_FILE,),
                what=f"{name} is {_shown(said)}, and {_name(model)} has {_shown(has)}",
                fix="remove it, or let `launcher plan cut` make a file for it",
            )
    if model.shard_degree < partition.shard_degree:
        degree = partition.shard_degree
        yield Problem(
            path=(*_MODEL, "shard_degree"),
            about=(_FILE,),
            what=f"{_name(model)} was made for shard_degree={degree}, and the job has "
            f"{model.shard_degree}: its ranks would need more memory than predicted",
            fix=f"write shard_degree: {degree}, or let `launcher plan cut` make another file",
        )


def _problems_of_the_whole(
    spec: JobSpec, model: ModelParallel, partition: PartitionFile
) -> Iterator[Problem]:
    """Find problems with the job after the settings of its file are filled in."""
    whole = dataclasses.replace(model.completed(partition), partition_file=None)
    for found in (*whole.field_problems(), *pipeline_rules.find_problems(spec, whole)):
        if found.path == (*_MODEL, "shard_degree"):  # the job sets it beside the file
            yield found
            continue
        what, fix = f"{_name(model)}: {found.what}", f"make another file: {found.fix}"
        yield dataclasses.replace(found, path=_FILE, what=what, fix=fix)


def _name(model: ModelParallel) -> str:
    return PurePath(model.partition_file or "").name


def _shown(value: object) -> str:
    return shown(list(value) if isinstance(value, tuple) else value)


def _problems_beside(model: ModelParallel, chosen: str, others: Iterable[str]) -> Iterator[Problem]:
    for name in others:
        if getattr(model, name):
            yield Problem(
                path=(*_MODEL, name),
                about=((*_MODEL, chosen),),
                what=f"{name} is given beside {chosen}",
                fix="remove one of them: a model is cut in one way",
            )


def _problems_of_nothing_to_find(model: ModelParallel) -> Iterator[Problem]:
    """Find settings of auto_partition in a job that does not use it."""
    for name in ("optimize", "memory_cap"):
        if getattr(model, name) is not None:
            yield Problem(
                path=(*_MODEL, name),
                about=((*_MODEL, "auto_partition"),),
                what=f"{name} is given, and auto_partition is not",
                fix="remove it: the partition file already decides it"
                if model.partition_file
                else "write auto_partition: true, or remove it",
            )

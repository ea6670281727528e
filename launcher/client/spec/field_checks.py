"""Checks of single fields, which several rules share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.spec.job_parts import InstanceGroup
from launcher.errors import FieldPath, Problem
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


def range_problems(
    path: FieldPath, value: int, least: int, most: int | None = None, unit: str = ""
) -> Iterator[Problem]:
    """Find a number below `least` or above `most`."""
    if value < least or (most is not None and value > most):
        fix = (
            f"use {least} to {most} {unit}".rstrip() if most is not None else f"use {least} or more"
        )
        yield Problem(path=path, what=f"{path[-1]} is {value}", fix=fix)


def word_problems(path: FieldPath, word: str | None, known: Iterable[str]) -> Iterator[Problem]:
    """Find a word that is not one of the known ones; None is allowed."""
    if word is not None and word not in known:
        what = f'"{word}" is not a known {path[-1]}'
        yield Problem(path=path, what=what, fix=choice_fix(word, known))


def name_problems(path: FieldPath, modules: Sequence[str]) -> Iterator[Problem]:
    """Find names of modules that are empty or listed twice."""
    for name, times in Counter(modules).items():
        here = (*path, modules.index(name))
        if not name.strip():
            yield Problem(path=here, what=f"a name in {path[-1]} is empty", fix="name a module")
        elif times > 1:
            what = f'"{name}" is listed {times} times in {path[-1]}'
            yield Problem(path=here, what=what, fix="keep one of them")


#: Pattern of AWS's instance types: family, generation, options; size.
_TYPE_SHAPE = re.compile(r"ml\.[a-z]+\d+[a-z]*(-[a-z0-9]+)*\.(\d*x?large|medium|small|metal.*)")


def is_typo(instance_type: str) -> bool:
    """Return whether the type is misspelled: malformed, or a known type with letters swapped."""
    if catalogue.find(instance_type):
        return False
    return not _TYPE_SHAPE.fullmatch(instance_type) or any(
        sorted(near) == sorted(instance_type) for near in catalogue.near(instance_type)
    )


def groups_with_paths(spec: JobSpec) -> Iterator[tuple[FieldPath, InstanceGroup]]:
    """Yield each group with the path of its fields."""
    for index, group in enumerate(spec.groups):
        yield ("instance_groups", index) if spec.instance_groups else (), group

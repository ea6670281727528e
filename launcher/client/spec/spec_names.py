"""Normalisation of names given as one string, several strings, or named objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def names(given: str | Iterable[Any]) -> tuple[str, ...]:
    """Return the names in order; an instance group is replaced by its name.

    >>> names("data_group")
    ('data_group',)
    """
    if isinstance(given, str):
        return (given,)
    return tuple(getattr(item, "instance_group_name", item) for item in given)

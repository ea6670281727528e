"""Normalisation of names given as one string, several strings, or named objects."""

from __future__ import annotations

from typing import Any


def names(given: Any) -> tuple[str, ...]:
    """Return the names in order; an instance group is replaced by its name, and None has none.

    >>> names("data_group")
    ('data_group',)
    """
    if given is None:
        return ()
    if isinstance(given, str) or getattr(given, "instance_group_name", None) is not None:
        given = (given,)
    return tuple(getattr(item, "instance_group_name", item) for item in given)

"""Names that are given as one text, several, or the objects that bear them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def names(given: str | Iterable[Any]) -> tuple[str, ...]:
    """The names, in order; an instance group stands for its name.

    >>> names("data_group")
    ('data_group',)
    """
    if isinstance(given, str):
        return (given,)
    return tuple(getattr(item, "instance_group_name", item) for item in given)

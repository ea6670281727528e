"""Sides that are compared are measured by turns: what disturbs one disturbs its neighbour too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def in_turns(rounds: int, measures: Mapping[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """The results of each, measured one after the other, round by round; every second backwards."""
    results: dict[str, list[Any]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures)[:: -1 if number % 2 else 1]:
            results[name].append(measures[name]())
    return results

"""Two sides that do the same work by turns, in the same ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from table.turns import in_turns
from trainers_parts.inside.clock import everywhere, seconds

#: Steps of each side before the first that counts: optimizers and reducers set themselves up.
_WARM = 3

Step = Callable[[int], Any]
#: By side, of each pair: seconds of a step, and processor seconds of all ranks.
Pairs = dict[str, list[tuple[float, float]]]


def compare(ours: Step, plain: Step, *, pairs: int, block: int) -> Pairs:
    """Pairs of blocks of so many steps, one block of each side; every second pair the other way.

    A step is called with its number.
    """
    return in_turns(pairs, {"ours": _block(ours, block), "plain": _block(plain, block)})


def _block(step: Step, count: int) -> Callable[[], tuple[float, float]]:
    numbers = itertools.count()
    for _ in range(_WARM):
        step(next(numbers))
    return lambda: seconds(lambda: step(next(numbers)), times=count)


def difference(ours: Iterable[nn.Parameter], plain: Iterable[nn.Parameter]) -> float:
    """By how much the two sides' parameters differ in the end, relatively, on any rank."""
    apart = [
        (own.detach() - other.detach()).norm() / other.detach().norm()
        for own, other in zip(ours, plain, strict=True)
    ]
    return max(everywhere(max(each.item() for each in apart)))

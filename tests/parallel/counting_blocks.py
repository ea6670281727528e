"""Blocks that count their calls in train mode, each in another place of Python's state."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

CALLS = 0


class Held:
    """An object with a number, or with another object."""

    def __init__(self, held: Any = 0) -> None:
        self.held = held

    def tick(self) -> None:
        self.held += 1


@dataclass(slots=True)
class Slotted:
    calls: int = 0


class Statistics(dict[str, int]):
    """A dict whose writing does more than a dict's."""

    def __setitem__(self, key: str, value: int) -> None:
        super().__setitem__(key, value)
        super().__setitem__("last", value)


class Kept(deque[int]):
    pass


GLOBAL = Held()


class Counting(nn.Module):
    """Scales by the number of its calls in train mode, which `tick` counts."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

    @classmethod
    def reset(cls) -> None:
        """Set what is not the block's own to 0."""

    def tick(self) -> None:
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.tick()
        return self.two(self.one(x).tanh()) * (1 + self.count())


class InSlots(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.statistics = Slotted()

    def tick(self) -> None:
        self.statistics.calls += 1

    def count(self) -> int:
        return self.statistics.calls


class InDeepObjects(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.statistics = Held(Held(Held({"a": [{"b": [Held()]}]})))

    def tick(self) -> None:
        self._inner().tick()

    def count(self) -> int:
        return self._inner().held

    def _inner(self) -> Held:
        return self.statistics.held.held.held["a"][0]["b"][0]


class InOwnDict(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.statistics = Statistics(calls=0)

    def tick(self) -> None:
        self.statistics["calls"] += 1

    def count(self) -> int:
        return self.statistics["calls"]


class InOwnDeque(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.statistics = Kept()

    def tick(self) -> None:
        self.statistics.append(1)

    def count(self) -> int:
        return len(self.statistics)


class InItsClass(Counting):
    calls: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        cls.calls = 0

    def tick(self) -> None:
        type(self).calls += 1

    def count(self) -> int:
        return self.calls


class InAnIterator(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.calls = itertools.count()
        self.same = [self.calls]

    def tick(self) -> None:
        next(self.calls)

    def count(self) -> int:
        assert self.same[0] is self.calls
        return int(repr(self.calls)[6:-1])


class InAGlobal(Counting):
    @classmethod
    def reset(cls) -> None:
        global CALLS
        CALLS = 0

    def tick(self) -> None:
        global CALLS
        CALLS += 1

    def count(self) -> int:
        return CALLS


class InAHelpersGlobal(InAGlobal):
    def tick(self) -> None:
        _tick_global()


def _tick_global() -> None:
    global CALLS
    CALLS += 1


class InAGlobalObject(Counting):
    @classmethod
    def reset(cls) -> None:
        GLOBAL.held = 0

    def tick(self) -> None:
        GLOBAL.tick()

    def count(self) -> int:
        return GLOBAL.held


class InAFunction(Counting):
    @classmethod
    def reset(cls) -> None:
        _function.__dict__["calls"] = 0

    def tick(self) -> None:
        _function.__dict__["calls"] += 1

    def count(self) -> int:
        return _function.__dict__["calls"]


def _function() -> None: ...


class InADefault(Counting):
    @classmethod
    def reset(cls) -> None:
        cls._log([], clears=True)

    def tick(self) -> None:
        self._log([1])

    def count(self) -> int:
        return len(self._log([]))

    @staticmethod
    def _log(more: list[int], *, clears: bool = False, log: list[int] = []) -> list[int]:  # noqa: B006 - on purpose
        if clears:
            log.clear()
        log.extend(more)
        return log


COUNTING: dict[str, type[Counting]] = {
    "slots": InSlots,
    "objects in objects": InDeepObjects,
    "a dict of its own class": InOwnDict,
    "a deque of its own class": InOwnDeque,
    "its class": InItsClass,
    "an iterator": InAnIterator,
    "a global": InAGlobal,
    "a helper's global": InAHelpersGlobal,
    "a global object": InAGlobalObject,
    "a function's attribute": InAFunction,
    "a mutable default": InADefault,
}

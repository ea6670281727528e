"""Costs of a model, module by module, in the order in which they run; and their written form."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ModuleCost", "Joint", "Tie", "Link"]

#: Metadata of a field that version 1 of the partition file got after files of it were written. It
#: is left out where it has its default: a file that is read and written again stays as it was.
LATER = {"later": True}


@dataclass(frozen=True, kw_only=True)
class ModuleCost:
    """Costs of one module, which is not cut, with the code up to the next one, for one microbatch.

    forward, backward: seconds, the medians of several runs. spread: of their sum, half the distance
        between its quartiles.
    parameters, gradients, states: bytes; states are the optimizer's.
    kept: bytes that it creates and keeps for its backward pass. passing: the most that it needs
        besides them while it runs, or while its parameters are updated.
    crossing, returning: bytes that a cut before it sends forward, and bytes of gradients sent back;
        None where there can be no cut.
    update: seconds of the optimizer's step on its parameters, once for all microbatches.
    block: bytes of the parameters of the block that it is in, which shards gather together; 0 if
        some of its parameters are in no block. Absent in files of older Launchers, as is `update`.
    """

    name: str
    forward: float
    backward: float
    spread: float = 0.0
    parameters: int = 0
    gradients: int = 0
    states: int = 0
    kept: int = 0
    passing: int = 0
    crossing: int | None = None
    returning: int | None = None
    block: int = field(default=0, metadata=LATER)
    update: float = field(default=0.0, metadata=LATER)

    @property
    def held(self) -> int:
        """Bytes that it needs however many microbatches are in flight."""
        return self.parameters + self.gradients + self.states


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Difference in bytes between a stage that holds two modules and the sum of both.

    first, second: their numbers. A parameter of both is held once. What the first creates and the
    second keeps is in `kept` of a stage with both; in separate stages it is among the stage's
    inputs.
    """

    first: int
    second: int
    held: int = 0
    kept: int = 0


@dataclass(frozen=True, kw_only=True)
class Tie:
    """Trained parameters that the same modules share: ranks that hold them add their gradients.

    modules: their numbers, in order. gradients: bytes. parameters: how many.
    """

    modules: tuple[int, ...]
    gradients: int
    parameters: int = 1


@dataclass(frozen=True, kw_only=True)
class Link:
    """The link between stages. latency: seconds. bandwidth: bytes per second; None: no limit.

    source: "measured" or "given".
    """

    latency: float = 0.0
    bandwidth: float | None = None
    source: str = "given"

    def seconds(self, crossing: int, returning: int) -> float:
        """Return the seconds for a microbatch to cross a cut and its gradients to return."""
        ways = 1 + (returning > 0)
        moving = (crossing + returning) / self.bandwidth if self.bandwidth else 0.0
        return ways * self.latency + moving

    def all_gather(self, count: float, ranks: int, messages: float = 1) -> float:
        """Return the seconds in which ranks that have shares of `count` bytes gather them."""
        steps = ranks - 1
        moving = steps / ranks * count / self.bandwidth if self.bandwidth else 0.0
        return messages * steps * self.latency + moving

    def all_reduce(self, count: float, ranks: int, messages: float = 1) -> float:
        """Return the seconds of a ring all-reduce between ranks.

        count: bytes of all messages together, in each rank. Sums and averages of gradients need two
        messages each: the first, of a few bytes, finds out which gradients exist.
        """
        steps = 2 * (ranks - 1)
        moving = steps / ranks * count / self.bandwidth if self.bandwidth else 0.0
        return messages * steps * self.latency + moving


def written(value: Any) -> Any:
    """Return a value of a partition file as dictionaries, lists and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dict(_fields(value))
    if isinstance(value, (list, tuple)):
        return [written(each) for each in value]
    return value


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for each in dataclasses.fields(value):
        found = getattr(value, each.name)
        if not (each.metadata.get("later") and found == each.default):
            yield each.name, written(found)

"""What a model costs, module by module, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ModuleCost:
    """One module, which is not cut, with the code before the next one. Of one microbatch.

    forward, backward: seconds, the medians of several runs. spread: of their sum, half the distance
        between its quartiles.
    parameters, gradients, states: bytes; states are the optimizer's.
    kept: bytes that it makes and keeps for its backward pass. passing: the most that it needs
        beside them while it runs.
    crossing, returning: bytes that a cut before it sends forward, and the gradients that come back;
        None where there can be no cut.
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

    @property
    def held(self) -> int:
        """Bytes that it takes whatever is under way."""
        return self.parameters + self.gradients + self.states


@dataclass(frozen=True, kw_only=True)
class Joint:
    """What a stage that has two modules takes more than both apart, or less. In bytes.

    first, second: their numbers. A parameter of both is held once; what the first makes and the
    second keeps is kept in a stage with both, and else among what the stage has received.
    """

    first: int
    second: int
    held: int = 0
    kept: int = 0


@dataclass(frozen=True, kw_only=True)
class Link:
    """What goes from stage to stage. latency: seconds. bandwidth: bytes per second; None: no limit.

    source: "measured" or "given".
    """

    latency: float = 0.0
    bandwidth: float | None = None
    source: str = "given"

    def seconds(self, crossing: int, returning: int) -> float:
        """For one microbatch to go over a cut, and its gradients back."""
        ways = 1 + (returning > 0)
        moving = (crossing + returning) / self.bandwidth if self.bandwidth else 0.0
        return ways * self.latency + moving

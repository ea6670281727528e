"""What one process learns from the batches of all ranks, to compare ranks with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from launcher.parallel import Randomness, cut

Given = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Course:
    """Microbatches in the order of steps, replicas and batches, and how their loss is computed.

    batches: which a replica adds up for a step. clip: the largest norm; it must matter.
    """

    given: Sequence[Given]
    targets: Sequence[torch.Tensor]
    loss: Callable[[Any, torch.Tensor], torch.Tensor]
    replicas: int = 1
    batches: int = 1
    microbatches: int = 1
    clip: float | None = None

    @property
    def steps(self) -> range:
        return range(len(self.given) // (self.replicas * self.batches * self.microbatches))

    def part(self, step: int, replica: int, batch: int) -> slice:
        """Return the places of the microbatches of a batch."""
        first = ((step * self.replicas + replica) * self.batches + batch) * self.microbatches
        return slice(first, first + self.microbatches)

    def batch(self, step: int, replica: int, batch: int = 0) -> tuple[dict[str, Any], torch.Tensor]:
        """Return the arguments and the target of a batch of a replica."""
        part = self.part(step, replica, batch)
        given = self.given[part]
        whole = {name: torch.cat([each[name] for each in given]) for name in given[0]}
        return whole, torch.cat(list(self.targets[part]))


@dataclass(kw_only=True)
class Learned:
    """What became of a model: the losses of its microbatches in their order, and the norms."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)


def in_one_process(
    course: Course,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    after: Callable[[], object] = lambda: None,
    **seed: int,
) -> Learned:
    """Train a model on all replicas' microbatches, one by one. after: called after each step."""
    randomness = Randomness(model, cut(model, (), course.given[0])[0].drawing, **seed)
    found = Learned(model=model, optimizer=optimizer)
    count = course.replicas * course.batches * course.microbatches
    for step in course.steps:
        optimizer.zero_grad()
        for replica in range(course.replicas):
            for batch in range(course.batches):
                part = course.part(step, replica, batch)
                pairs = zip(course.given[part], course.targets[part], strict=True)
                for number, (given, target) in enumerate(pairs):
                    at = step * course.batches + batch
                    randomness.set_position(step=at, replica=replica, microbatch=number)
                    value = course.loss(model(**given), target)
                    (value / count).backward()
                    found.losses.append(value.item())
        if course.clip is not None:
            norm = nn.utils.clip_grad_norm_(model.parameters(), course.clip)
            found.norms.append(norm.item())
        optimizer.step()
        after()
    assert course.clip is None or max(found.norms) > course.clip, found.norms
    return found


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of a tensor that may be sharded."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def furthest(
    named: Iterable[tuple[str, torch.Tensor]], reference: Mapping[str, torch.Tensor]
) -> float:
    """Return the largest relative difference of tensors from those of the same names."""
    apart = 0.0
    for name, own in named:
        theirs = reference[name].double()
        difference = (whole(own).double() - theirs).norm() / theirs.norm().clamp_min(1e-9)
        apart = max(apart, difference.item())
    return apart


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return all parameters and buffers, tied ones under each of their names."""
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def norms_apart(own: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the largest relative difference of norms or losses."""
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(own, theirs, strict=True))

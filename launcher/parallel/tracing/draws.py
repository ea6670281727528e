"""Random numbers that the code between modules draws (F.dropout): the model's, or a container's.

Each draw is seeded by its number among those of one call of its module. So stages draw what one
process does, whichever stage a draw is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import nn

from launcher.parallel.tracing.recorded_operations import Target


class DrawPlace(NamedTuple):
    """A draw by its number among those of a call of a module ("" is the model)."""

    module: str
    call: int
    number: int


#: Seeds the generators of torch within the context, for the draw at a place.
Seeding = Callable[[DrawPlace], AbstractContextManager[object]]

_DRAWING = {
    *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
    *("alpha_dropout", "alpha_dropout_", "feature_alpha_dropout", "rrelu", "rrelu_"),
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
    *("bernoulli", "bernoulli_", "normal", "normal_", "uniform_", "exponential_", "random_"),
    *("multinomial", "poisson", "gumbel_softmax", "scaled_dot_product_attention"),
}


class Draw(Target):
    """A function of torch that draws."""

    def __init__(self, function: Callable[..., object], place: DrawPlace) -> None:
        super().__init__(getattr(function, "__name__", "draw"))
        self._function = function
        self._place = place
        #: Set by the pipeline; without it, the draw continues the generators' streams.
        self.seeding: Seeding | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        if self.seeding is None:
            return self._function(*args, **kwargs)
        with self.seeding(self._place):
            return self._function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Draw)
            and self._function == other._function
            and self._place == other._place
        )

    def __hash__(self) -> int:
        return hash(self._function)


def code_of(module: str) -> str:
    """Return the name of a module's own code among what draws: "encoder.", and "" of the model."""
    return f"{module}." if module else ""


def is_code(name: str) -> bool:
    """Return whether a name among what draws is that of a module's own code."""
    return not name or name.endswith(".")


def holds_blocks(module: nn.Module) -> bool:
    """Return whether a module holds a list of others, between which it may be cut."""
    return any(isinstance(each, nn.ModuleList) for each in module.children())


def may_draw(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> bool:
    """Return whether a call of torch can draw from torch's own generators."""
    name = getattr(function, "__name__", "")
    if name not in _DRAWING or kwargs.get("generator") is not None:
        return False
    return not is_uniform(function, args, kwargs)


def is_uniform(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> bool:
    """Return whether a call draws a single number from [0, 1), as layer drop does."""
    shape = (*args, kwargs.get("size"))
    return function is torch.rand and not any(shape) and not kwargs.get("out")

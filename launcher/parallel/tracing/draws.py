"""Random numbers that a model's own code draws, between the calls of its modules (F.dropout).

Each draw is seeded by its number among those of one call of the model. So stages draw what one
process does, whichever stage a draw is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import torch

from launcher.parallel.tracing.recorded_operations import Target

#: Seeds the generators of torch within the context, for the draw of a number.
Seeding = Callable[[int], AbstractContextManager[object]]

_DRAWING = {
    *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
    *("alpha_dropout", "alpha_dropout_", "feature_alpha_dropout", "rrelu", "rrelu_"),
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
    *("bernoulli", "bernoulli_", "normal", "normal_", "uniform_", "exponential_", "random_"),
    *("multinomial", "poisson", "gumbel_softmax", "scaled_dot_product_attention"),
}


class Draw(Target):
    """A function of torch that draws. number: among the draws of one call of the model."""

    def __init__(self, function: Callable[..., object], number: int) -> None:
        super().__init__(getattr(function, "__name__", "draw"))
        self._function = function
        self._number = number
        #: Set by the pipeline; without it, the draw continues the generators' streams.
        self.seeding: Seeding | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        if self.seeding is None:
            return self._function(*args, **kwargs)
        with self.seeding(self._number):
            return self._function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Draw)
            and self._function == other._function
            and self._number == other._number
        )

    def __hash__(self) -> int:
        return hash(self._function)


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

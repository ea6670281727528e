"""The arguments of a pipeline's batches: by position or by name, as the example has them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.cutting.graph import order_arguments
from launcher.parallel.tracing import flatten
from launcher.shared import did_you_mean


class Inputs:
    """The arguments of a model. example: by name, for one microbatch."""

    def __init__(self, model: nn.Module, example: Mapping[str, object]) -> None:
        self._example = order_arguments(model, example)
        self.names = list(self._example)

    def named(
        self, arguments: tuple[object, ...], named: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the arguments of a batch by name; those without tensors may be left out.

        Raises ParallelError for unknown or missing ones, and for values that are not tensors and
        differ from those of the example.
        """
        if len(arguments) > len(self.names):
            raise ParallelError(
                f"the pipeline was given {len(arguments)} arguments, but its example has "
                f"{len(self.names)}: {', '.join(self.names)}"
            )
        given = dict(zip(self.names, arguments, strict=False))
        for name in named:
            if name not in self._example:
                near = did_you_mean(name, self.names)
                hint = f"did you mean {near!r}?" if near else f"it has {', '.join(self.names)}"
                raise ParallelError(f"the pipeline's example has no argument {name!r}: {hint}")
            if name in given:
                raise ParallelError(f"{name} was given twice: by position and by name")
        given |= named
        return {name: self._checked(name, like, given) for name, like in self._example.items()}

    def tensors(self, named: Mapping[str, object]) -> list[torch.Tensor]:
        """Return the tensors in such arguments, in the order of the first stage."""
        return [leaf for leaf in flatten(dict(named))[0] if isinstance(leaf, torch.Tensor)]

    def _checked(self, name: str, like: object, given: Mapping[str, object]) -> object:
        constants = _constants(like)
        if name not in given:
            if any(isinstance(leaf, torch.Tensor) for leaf in flatten(like)[0]):
                raise ParallelError(f"the batch lacks {name}, which the pipeline's example has")
            return like
        if (found := _constants(given[name])) != constants:
            raise ParallelError(
                f"{name} is {found} in this batch, but {constants} in the pipeline's example, for "
                "which the model was cut: create a pipeline with an example like this batch, or "
                "pass it as a tensor"
            )
        return given[name]


def _constants(value: object) -> str:
    """Describe a value without its tensors."""
    flatten(value)  # dataclasses become structures
    return repr(tree_map_only(torch.Tensor, lambda _: "tensor", value)).replace(
        "'tensor'", "tensor"
    )

"""The callables that the nodes of a traced graph call, besides modules."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import torch
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from launcher.errors import ParallelError

#: What a graph holds of a module's output, other than tensors.
CONSTANTS = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.Size)

#: Characters of values in a message.
_LONGEST = 200


class Target:
    """A callable that a node of a graph calls. name: that of the node."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name.strip("_<>") or "value"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Modes:
    """The state that torch.no_grad, torch.autocast and their like change for what runs in them."""

    grad: bool
    inference: bool
    autocasts: tuple[torch.dtype | None, ...]
    hooks: object = None  # of saved tensors, as torch.utils.checkpoint sets them

    @classmethod
    def now(cls) -> Modes:
        """Return the state at this moment."""
        return cls(
            grad=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
            autocasts=tuple(
                torch.get_autocast_dtype(each) if torch.is_autocast_enabled(each) else None
                for each in _DEVICES
            ),
            hooks=torch._C._autograd._top_saved_tensors_default_hooks(True),
        )

    def recomputes(self, outside: Modes) -> bool:
        """Return whether all that differs is that a checkpoint keeps no activations."""
        pack = self.hooks[0] if isinstance(self.hooks, tuple) else None
        is_checkpoint = getattr(pack, "__module__", "") == "torch.utils.checkpoint"
        return is_checkpoint and dataclasses.replace(self, hooks=outside.hooks) == outside

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Set the state within the context."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for device, dtype in zip(_DEVICES, self.autocasts, strict=True):
                if device == "cpu" or torch.cuda.is_available():
                    cast = torch.autocast(device, dtype=dtype, enabled=dtype is not None)
                    stack.enter_context(cast)
            yield


_DEVICES = ("cpu", "cuda")


class Operation(Target):
    """A function of torch or method of a tensor. modes: set for it, if not those around it."""

    def __init__(self, function: Callable[..., object], modes: Modes | None = None) -> None:
        super().__init__(getattr(function, "__name__", type(function).__name__))
        self.function = function
        self.modes = modes

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        if self.modes is None:
            return self.function(*args, **kwargs)
        with self.modes.within():
            return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Operation)
            and self.function == other.function
            and self.modes == other.modes
        )

    def __hash__(self) -> int:
        return hash(self.function)


class Applied(Target):
    """An autograd function."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__(function.__name__)
        self._function = function

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Apply the function."""
        return self._function.apply(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Applied) and self._function is other._function

    def __hash__(self) -> int:
        return hash(self._function)


class Attribute(Target):
    """An attribute of a tensor that is a tensor itself, like `T`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.attribute = name

    def __call__(self, tensor: torch.Tensor) -> object:
        """Return the attribute."""
        return getattr(tensor, self.attribute)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attribute) and self.attribute == other.attribute

    def __hash__(self) -> int:
        return hash(self.attribute)


class Constant(Target):
    """A tensor that is no parameter and no buffer, and that existed before the trace."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__("constant")
        self.tensor = tensor

    def __call__(self) -> torch.Tensor:
        """Return the tensor."""
        return self.tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


def leaf(value: object, number: int) -> object:
    """Return a leaf of a structure, in the order of torch's pytrees."""
    return tree_leaves(value)[number]


class Same(Target):
    """Check that what a module returns besides tensors is what it returned in the trace."""

    def __init__(self, module: str, leaves: Sequence[object], *, with_shapes: bool) -> None:
        super().__init__("same")
        self._module = module
        self._with_shapes = with_shapes
        self._expected = self._describe(leaves)

    def _describe(self, leaves: Sequence[object]) -> list[str]:
        return [
            (f"tensor{tuple(each.shape)}" if self._with_shapes else "tensor")
            if isinstance(each, torch.Tensor)
            else repr(each)
            for each in leaves
        ]

    def __call__(self, value: object) -> None:
        """Raise ParallelError if a part of a module's output differs from that in the trace."""
        found = self._describe(tree_leaves(value))
        if found != self._expected:
            raise ParallelError(
                f"{self._module} returned ({_listed(found)}) for this batch, but "
                f"({_listed(self._expected)}) when the model was cut, and the model's code may "
                "depend on it: return it as a tensor of one shape, or move the code that uses it "
                "into the same module"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._expected == other._expected

    def __hash__(self) -> int:
        return hash(self._module)


def _listed(parts: Sequence[str]) -> str:
    text = ", ".join(parts)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class Rebuild(Target):
    """Make a structure of a class of its own, such as a ModelOutput, from its leaves."""

    def __init__(self, spec: TreeSpec) -> None:
        super().__init__("rebuild")
        self._spec = spec

    def __call__(self, *leaves: object) -> object:
        """Return the structure."""
        return tree_unflatten(list(leaves), self._spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rebuild) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(self._spec.num_leaves)


def flatten(value: object) -> tuple[list[object], TreeSpec]:
    """Return the leaves of a structure; dataclasses are structures too."""
    leaves, spec = tree_flatten(value)
    new = {type(each) for each in leaves if _is_structure(each)}
    for each in new:
        pytree.register_dataclass(each)
    return flatten(value) if new else (leaves, spec)


def _is_structure(value: object) -> bool:
    """Return whether a value is a dataclass with tensors."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    parts = [getattr(value, each.name, None) for each in dataclasses.fields(value)]
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(parts))

"""Modules that a script has put on a partition, and where the stages of the model begin."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from launcher.contract import ParallelPart
from launcher.errors import ParallelError
from launcher.parallel.graph import trace
from launcher.parallel.smp.session import session

#: Of a module: the partition that it was put on. It stays with copies of the module.
_PIN = "_launcher_partition"


@contextlib.contextmanager
def partition(index: int) -> Iterator[None]:
    """Modules that are made in here are on a partition; the innermost says which."""
    _check(index)
    make = nn.Module.__init__

    def make_here(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        make(module, *args, **kwargs)
        setattr(module, _PIN, index)

    nn.Module.__init__ = make_here
    try:
        yield
    finally:
        nn.Module.__init__ = make


def set_partition(module: nn.Module, index: int) -> None:
    """Put a module, with all that is in it, on a partition."""
    _check(index)
    for each in module.modules():
        setattr(each, _PIN, index)


def _check(index: int) -> None:
    count = session().part.partitions
    if not (isinstance(index, int) and 0 <= index < count):
        raise ParallelError(f"there is no partition {index!r}: there are 0 to {count - 1}")


def pins(model: nn.Module) -> dict[str, int]:
    """The partition of each module that a script has put on one, by name."""
    return {
        name: vars(module)[_PIN] for name, module in model.named_modules() if _PIN in vars(module)
    }


def starts(model: nn.Module, part: ParallelPart) -> tuple[str, ...]:
    """The module at which each stage but the first begins. Raises ParallelError."""
    found = {**part.stages, **pins(model)}
    if found and part.starts:
        raise ParallelError(
            f"the job says where stages start ({', '.join(part.starts)}), and modules are on "
            f"partitions ({', '.join(sorted(found))}): choose one"
        )
    if found:
        return tuple(_begins(model, found, part))
    if part.partitions > 1 and not part.starts:
        raise ParallelError(
            f"nothing says how to cut {type(model).__name__} into {part.partitions} partitions: "
            "make its modules in smp.partition(...), or name the module at which each stage but "
            "the first begins: smp.init(starts=[...]), or starts in the job's distribution"
        )
    return part.starts


def _begins(model: nn.Module, pinned: dict[str, int], part: ParallelPart) -> Iterator[str]:
    now, before = 0, ""
    for node in trace(model).find_nodes(op="call_module"):
        name = str(node.target)
        stage = _stage_of(name, pinned, part.default_stage)
        if stage == now + 1:
            now = stage
            yield name
        elif stage != now and _has_state(model.get_submodule(name)):
            raise ParallelError(
                f"{name} is on partition {stage}, and is called after {before}, which is on {now}: "
                "partitions are visited once, in order; put it on a later one, or those before it "
                "on an earlier one (default_partition is that of all others)"
            )
        before = name
    if now + 1 < part.partitions:
        raise ParallelError(
            f"no module is on partition {now + 1}, and there are {part.partitions}: put some on "
            "each with smp.partition"
        )


def _stage_of(name: str, pinned: dict[str, int], default: int) -> int:
    parts = name.split(".")
    for length in range(len(parts), -1, -1):
        if (owner := ".".join(parts[:length])) in pinned:
            return pinned[owner]
    return default


def _has_state(module: nn.Module) -> bool:
    """An activation is wherever it is called."""
    return any(True for _ in (*module.parameters(), *module.buffers()))

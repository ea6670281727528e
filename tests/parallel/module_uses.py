"""Each public name of torch's Module as a training loop uses it, to compare two modules by."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

#: A use yields what it gave before a step, and then what it gave after the step.
Use = Callable[[Any], Iterator[object]]


class Net(nn.Module):
    """Layers around a batch norm, so that the mode matters."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6, momentum=0.0)
        self.head = nn.Linear(6, 1)

    def forward(self, x: Any) -> Any:
        return self.head(torch.tanh(self.norm(self.first(x))))


def own(names: Any) -> list[str]:
    """Names without what DDP puts before them."""
    return [name.removeprefix("module.") for name in names if name not in ("", "module")]


def gives(call: Callable[[Any], object]) -> Use:
    """A use that changes nothing."""

    def use(module: Any) -> Iterator[object]:
        yield call(module)
        yield None

    return use


def hooks(register: str, trigger: Callable[[Any], object] = lambda module: None) -> Use:
    """A use that counts whether a hook was called, in a step or by `trigger`."""

    def use(module: Any) -> Iterator[object]:
        calls: list[object] = []
        handle = getattr(module, register)(lambda *given: calls.append(given[0]))
        trigger(module)
        yield None
        handle.remove()
        yield bool(calls)

    return use


def shapes(named: Any) -> list[tuple[str, Any]]:
    return sorted((*own([name]), tuple(each.shape)) for name, each in named)


def _train(module: Any) -> Iterator[object]:
    yield module.train(False) is module
    yield module.train(True) is module


def _eval(module: Any) -> Iterator[object]:
    yield module.eval() is module
    module.train()
    yield None


def _freeze(module: Any) -> Iterator[object]:
    module.requires_grad_(False)
    yield module.requires_grad_(True) is module
    yield None


def _zero(module: Any) -> Iterator[object]:
    yield None
    module.zero_grad()
    yield None


def _load(module: Any) -> Iterator[object]:
    torch.manual_seed(5)
    state = Net().double().state_dict()
    prefix = "" if "first.weight" in module.state_dict() else "module."
    module.load_state_dict({prefix + name: each for name, each in state.items()})
    yield None
    yield None


def converts(name: str) -> Use:
    """A use that converts a module, and converts it back before the step."""

    def use(module: Any) -> Iterator[object]:
        converted = getattr(module, name)() is module
        module.double()
        yield converted
        yield None

    return use


def adds(add: Callable[[Any], object], remove: Callable[[Any], object]) -> Use:
    def use(module: Any) -> Iterator[object]:
        add(module)
        try:
            yield None
        finally:
            remove(module)
        yield None

    return use


USES: dict[str, Use] = {
    "T_destination": gives(lambda m: str(m.T_destination)),
    "call_super_init": gives(lambda m: m.call_super_init),
    "dump_patches": gives(lambda m: m.dump_patches),
    "add_module": adds(
        lambda m: m.add_module("extra", nn.ReLU()), lambda m: m._modules.pop("extra")
    ),
    "register_module": adds(
        lambda m: m.register_module("extra", nn.ReLU()), lambda m: m._modules.pop("extra")
    ),
    "register_buffer": adds(
        lambda m: m.register_buffer("extra", torch.ones(1)), lambda m: delattr(m, "extra")
    ),
    "register_parameter": adds(
        lambda m: m.register_parameter("extra", nn.Parameter(torch.ones(1))),
        lambda m: delattr(m, "extra"),
    ),
    "set_submodule": adds(
        lambda m: m.set_submodule("extra", nn.ReLU()), lambda m: m._modules.pop("extra")
    ),
    "apply": gives(lambda m: m.apply(lambda each: None) is m),
    **{
        name: gives(lambda m, name=name: getattr(m, name)() is m)
        for name in ("double", "cpu", "share_memory")
    },
    **{
        name: gives(lambda m, name=name: getattr(m, name)())
        for name in ("cuda", "ipu", "xpu", "mtia", "get_extra_state")
    },
    **{name: converts(name) for name in ("half", "bfloat16", "float")},
    "to": gives(lambda m: m.to("cpu", torch.float64) is m),
    "type": gives(lambda m: m.type(torch.float64) is m),
    "to_empty": gives(lambda m: m.to_empty(device="cpu")),
    "set_extra_state": gives(lambda m: m.set_extra_state({})),
    "buffers": gives(lambda m: sorted(tuple(each.shape) for each in m.buffers())),
    "named_buffers": gives(lambda m: shapes(m.named_buffers())),
    "parameters": gives(lambda m: sorted(tuple(each.shape) for each in m.parameters())),
    "named_parameters": gives(lambda m: shapes(m.named_parameters())),
    "state_dict": gives(lambda m: shapes(m.state_dict().items())),
    "load_state_dict": _load,
    "children": gives(lambda m: bool(list(m.children()))),
    "modules": gives(lambda m: {type(each).__name__ for each in m.modules()} >= {"Linear"}),
    "named_children": gives(lambda m: bool(dict(m.named_children()))),
    "named_modules": gives(lambda m: own(dict(m.named_modules()))),
    "get_submodule": gives(lambda m: type(m.get_submodule(_path(m, "head"))).__name__),
    "get_parameter": gives(lambda m: tuple(m.get_parameter(_path(m, "head.weight")).shape)),
    "get_buffer": gives(lambda m: tuple(m.get_buffer(_path(m, "norm.running_mean")).shape)),
    "extra_repr": gives(lambda m: m.extra_repr()),
    "compile": gives(lambda m: m.compile(backend="eager")),
    "forward": gives(lambda m: tuple(m.forward(torch.ones(4, 6, dtype=torch.float64)).shape)),
    "train": _train,
    "eval": _eval,
    "requires_grad_": _freeze,
    "zero_grad": _zero,
    **{
        name: hooks(name)
        for name in (
            "register_forward_hook",
            "register_forward_pre_hook",
            "register_backward_hook",
            "register_full_backward_hook",
            "register_full_backward_pre_hook",
        )
    },
    **{
        name: hooks(name, lambda module: module.state_dict())
        for name in ("register_state_dict_post_hook", "register_state_dict_pre_hook")
    },
    **{
        name: hooks(name, lambda module: module.load_state_dict(module.state_dict()))
        for name in ("register_load_state_dict_pre_hook", "register_load_state_dict_post_hook")
    },
    "deepcopy": gives(lambda m: type(copy.deepcopy(m)).__name__),
    "save": gives(lambda m: torch.save(m, io.BytesIO())),
}


def _path(module: Any, name: str) -> str:
    return name if isinstance(module, Net) else f"module.{name}"

"""Models of any make, for hypothesis: blocks that change, draw, branch and hook what they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 4


@dataclass(slots=True)
class Slotted:
    calls: int = 0


class Block(nn.Module):
    """A layer that does what its kind says, and calls its inner one."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.calls = 0
        self.log: list[int] = []
        self.slotted = Slotted()
        self.cached: torch.Tensor | None = None
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        if kind == "spectral":
            self.layer = nn.utils.parametrizations.spectral_norm(self.layer)
        if kind == "hook":
            self.register_forward_hook(self._count)
        if kind == "saved_with_hooks":
            self.register_state_dict_post_hook(lambda *_: None)
            self.register_load_state_dict_pre_hook(lambda *_: None)
        if kind == "parametrized":
            self.layer = nn.utils.parametrizations.weight_norm(self.layer)

    @staticmethod
    def _count(module: Block, args: Any, output: torch.Tensor) -> torch.Tensor:
        module.calls += 1
        return output * module.calls

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor | None = None) -> torch.Tensor:
        y = self.inner(self.layer(x)) if mask is None else self.inner(self.layer(x)) * mask
        return getattr(self, self.kind)(x, y)

    def plain(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    hook = parametrized = spectral = saved_with_hooks = plain

    def dropout(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + self.drop(y)

    def functional(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x + y, 0.5, self.training)

    def batch_norm(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)

    def by_value(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y if y.sum() > 0 else x - y

    def by_shape(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        batch, width = y.shape
        assert width == WIDTH
        return x + y.view(batch // 2, 2, width).flatten(0, 1) if batch % 2 == 0 else y

    def selected(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y[y > 0].sum()

    def counter(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + y / self.calls

    def listed(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.log.append(1)
        return x + y / len(self.log)

    def slots(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.slotted.calls += self.training
        return x + y / (1 + self.slotted.calls)

    def average(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.5).add_(y.detach().mean())
        return x + y * self.mean.clone()

    def assigned(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.mean = self.mean * 0.5 + y.detach().mean()
        return x + y * self.mean

    def counted(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x + y / self.seen

    def shortened(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.log = [*self.log, x.shape[0]][-3:]
        return x + y / sum(self.log)

    def cache(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self.cached is None or self.cached.shape != y.shape:
            self.cached = torch.linspace(0, 1, y.numel(), dtype=y.dtype).view_as(y)
        return x + y * self.cached

    def lazy_buffer(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "late"):
            self.register_buffer("late", torch.full((WIDTH,), 0.5, dtype=y.dtype))
        return x + y * self.late

    def frozen_statistics(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean.copy_(y.detach().mean())
        return x + y - self.mean.clone()

    def in_place_of_input(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(y)

    def item(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y / (1 + abs(y.sum().item()))

    def sorted(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.gather(1, y.argsort(1)) + y

    def recomputed(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + checkpoint(self.inner, y, use_reentrant=False)

    def by_mode(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + self.inner(y) if self.training else x

    def numpy_noise(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y * float(np.random.rand()) if self.training else x + y

    def in_place(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y = y * 2
        y += 1
        y[:, 0] = 0
        return x + y.clamp_(min=-1)

    def without_gradient(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = y.abs().amax() + 1
        return x + y / scale

    def detached(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.detach() + y

    def noisy(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y + torch.randn_like(y) if self.training else x + y

    def through(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + Rounded.apply(y)


class Rounded(torch.autograd.Function):
    """Rounds forward, and lets gradients through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 3


KINDS = [
    name
    for name, each in vars(Block).items()
    if callable(each) and not name.startswith("_") and name != "forward"
]


@dataclass
class Output:
    logits: torch.Tensor
    extra: torch.Tensor | None = None
    count: int = 0


class Pair(nn.Module):
    """Calls two blocks, with code of its own between them."""

    def __init__(self, first: Block, second: Block, style: str) -> None:
        super().__init__()
        self.first, self.second, self.style = first, second, style
        self.calls = 0
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        found: dict[str, Any] = {"y": self.first(x, mask=mask), "nothing": None}
        y = self._between(found["y"])
        return self.second(y, mask=mask) + x if found["nothing"] is None else x

    def _between(self, y: torch.Tensor) -> torch.Tensor:
        if self.style == "by shape" and y.shape[0] % 2 == 0:
            return y.flip(0)
        if self.style == "dropout":
            return nn.functional.dropout(y, 0.3, self.training)
        if self.style == "by mode" and self.training:
            return y * 1.5
        if self.style == "counter":
            self.calls += 1
            return y * self.calls
        if self.style == "buffer":
            self.scale.add_(0.5)
            return y * self.scale.clone()
        return y


PAIRS = ["plain", "by shape", "dropout", "by mode", "counter", "buffer"]


class Made(nn.Module):
    """Calls its blocks in an order, some several times, and returns what its `returns` says."""

    def __init__(self, blocks: list[nn.Module], order: list[int], flow: str, returns: str) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.Linear(WIDTH, WIDTH)
        self.extra = nn.Linear(WIDTH, WIDTH)
        self.order, self.flow, self.returns = order, flow, returns
        self.calls = 0
        self.register_buffer("scale", torch.ones(()))

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0, **more: Any
    ) -> Any:
        x = first = self.first(x) * scale
        if more.get("bias") is not None:
            x = x + more["bias"]
        auxiliary = None
        for number, place in enumerate(self.order):
            x = self._follow(self.blocks[place % len(self.blocks)](x, mask=mask), first)
            if self.returns == "auxiliary" and self.training and number == 1:
                auxiliary = self.extra(x)
        x = self.last(x)
        if self.returns == "auxiliary":
            return (x, auxiliary) if self.training else x
        if self.returns == "dict":
            return {"logits": x, "nothing": None, "count": x.shape[0]}
        if self.returns == "dataclass":
            return Output(logits=x, extra=first, count=len(x))
        return (x, [first, None]) if self.returns == "nested" else x

    def _follow(self, x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        if self.flow == "skips":
            return x + first
        if self.flow == "views":
            return x.view(2, -1).view(-1, WIDTH)
        if self.flow == "in place":
            x = x * 1.5
            return x.mul_(0.5)
        if self.flow == "dropout":
            return nn.functional.dropout(x, 0.3, training=self.training)
        if self.flow == "noise" and self.training:
            return x + torch.randn_like(x) / 10
        if self.flow == "by mode" and not self.training:
            return x + self.extra(x)
        if self.flow == "counter":
            self.calls += 1
            return x / self.calls
        if self.flow == "buffer":
            self.scale.mul_(0.5)
            return x + self.scale.clone()
        return x


FLOWS = ["plain", "skips", "views", "in place", "dropout", "noise", "by mode", "counter", "buffer"]
RETURNS = ["tensor", "dict", "dataclass", "nested", "auxiliary"]
HOOKED = ["first", "blocks.0", "blocks.1", "last"]
HOOKS = ["forward", "forward_pre", "full_backward", "full_backward_pre"]


def hook(module: nn.Module, kind: str) -> None:
    """Give a module a hook that counts its calls, and scales by their number."""
    module.hooked = 0  # type: ignore[assignment]

    def scaled(module: nn.Module, *values: Any) -> Any:
        module.hooked += 1  # type: ignore[operator]
        value = values[-1] if isinstance(values[-1], tuple) else (values[-1],)
        if kind == "full_backward":
            value = values[0]
        found = tuple(None if x is None else x * (1 + 1 / module.hooked) for x in value)
        return found[0] if kind == "forward" else found

    getattr(module, f"register_{kind}_hook")(scaled)


def share(blocks: list[nn.Module], what: str) -> None:
    """Let the first and the last block share a module or a parameter."""
    first, last = (
        next(m for m in each.modules() if isinstance(m, Block)) for each in (blocks[0], blocks[-1])
    )
    if what == "weight":
        last.inner[0].weight = first.inner[0].weight
    elif what != "nothing":
        setattr(last, what, getattr(first, what))


@st.composite
def models(draw: st.DrawFn) -> tuple[Made, dict[str, bool]]:
    torch.manual_seed(draw(st.integers(0, 99)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
    blocks: list[nn.Module] = [Block(kind) for kind in kinds]
    if draw(st.booleans()):
        style = draw(st.sampled_from(PAIRS))
        blocks.insert(1, Pair(Block("plain"), Block(draw(st.sampled_from(KINDS))), style))
    order = draw(st.permutations(range(len(blocks))))
    order += draw(st.lists(st.integers(0, len(blocks) - 1), max_size=1))  # a repeated one
    share(blocks, draw(st.sampled_from(["nothing", "inner", "norm", "drop", "weight"])))
    # Half of the models change nothing in their own code.
    flow = draw(st.sampled_from(FLOWS[:4] * 2 + FLOWS))
    made = Made(blocks, list(order), flow, draw(st.sampled_from(RETURNS)))
    if draw(st.integers(0, 2)) == 0:
        hook(made.get_submodule(draw(st.sampled_from(HOOKED))), draw(st.sampled_from(HOOKS)))
    given_too = {name: draw(st.booleans()) for name in ("mask", "bias", "scale")}
    return made.double(), given_too

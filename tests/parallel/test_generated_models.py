"""Models of any make are cut exactly, or refused."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, given, settings  # noqa: E402 - torch is asked for first
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel.boundaries import boundaries  # noqa: E402
from launcher.parallel.randomness import Randomness  # noqa: E402
from launcher.parallel.stages import cut  # noqa: E402

WIDTH = 4


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
        self.register_buffer("mean", torch.zeros(()))
        if kind == "hook":
            self.register_forward_hook(self._count)
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

    hook = parametrized = plain

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

    def average(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.5).add_(y.detach().mean())
        return x + y * self.mean.clone()

    def assigned(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.mean = self.mean * 0.5 + y.detach().mean()
        return x + y * self.mean

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


class Made(nn.Module):
    """Calls its blocks in an order, some several times, and returns what its `returns` says."""

    def __init__(self, kinds: list[str], order: list[int], flow: str, returns: str) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Block(kind) for kind in kinds])
        self.last = nn.Linear(WIDTH, WIDTH)
        self.order, self.flow, self.returns = order, flow, returns

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0, **more: Any
    ) -> Any:
        x = first = self.first(x) * scale
        if more.get("bias") is not None:
            x = x + more["bias"]
        for number in self.order:
            x = self.blocks[number % len(self.blocks)](x, mask=mask)
            if self.flow == "skips":
                x = x + first
            elif self.flow == "views":
                x = x.view(2, -1).view(-1, WIDTH)
            elif self.flow == "in place":
                x = x * 1.5
                x.mul_(0.5)
        x = self.last(x)
        if self.returns == "dict":
            return {"logits": x, "nothing": None, "count": x.shape[0]}
        if self.returns == "dataclass":
            return Output(logits=x, extra=first, count=len(x))
        return (x, [first, None]) if self.returns == "nested" else x


@st.composite
def models(draw: st.DrawFn) -> tuple[Made, dict[str, bool]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
    order = draw(st.permutations(range(len(kinds))))
    order += draw(st.lists(st.integers(0, len(kinds) - 1), max_size=1))  # a repeated one
    flow = draw(st.sampled_from(["plain", "skips", "views", "in place"]))
    returns = draw(st.sampled_from(["tensor", "dict", "dataclass", "nested"]))
    given_too = {name: draw(st.booleans()) for name in ("mask", "bias", "scale")}
    torch.manual_seed(draw(st.integers(0, 99)))
    return Made(kinds, list(order), flow, returns).double(), given_too


def batch(given_too: dict[str, bool], generator: torch.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {"x": torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)}
    if given_too["mask"]:
        found["mask"] = (torch.rand(4, 1, generator=generator) > 0.5).double()
    if given_too["scale"]:
        found["scale"] = 2.0
    if given_too["bias"]:
        found["bias"] = torch.randn(WIDTH, generator=generator, dtype=torch.float64)
    return found


def learned(model: nn.Module, drawing: set[str], run: Any, given_too: dict[str, bool]) -> Any:
    """The losses of four microbatches, two to a step, and whatever the model is then."""
    randomness = Randomness(model, drawing)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for step in range(2):
        for microbatch in range(2):
            randomness.set_position(step=step, replica=0, microbatch=microbatch)
            leaves = tree_leaves(run(batch(given_too, generator)))
            if len(leaves) == 1 and isinstance(leaves[0], Output):
                leaves = [leaves[0].logits, leaves[0].extra]
            loss = sum(each.sin().mean() for each in leaves if torch.is_tensor(each))
            loss.backward()
            losses.append(loss.item())
        with torch.no_grad():
            for each in model.parameters():
                if each.grad is not None:
                    each -= 0.1 * each.grad
                    each.grad = None
    states = {name: value.tolist() for name, value in model.state_dict().items()}
    return losses, states, [(each.calls, len(each.log)) for each in model.blocks]


def exact_or_refused(model: Made, given_too: dict[str, bool], place: int) -> str:
    """Cut a model at two of its boundaries; return the reason if it is refused."""
    alone = copy.deepcopy(model)
    example = batch(given_too, torch.Generator().manual_seed(1))
    try:
        places = boundaries(model, example)
        starts = sorted({place % len(places), place // 7 % len(places)}) if places else []
        stages = cut(model, [places[n] for n in starts], example)
    except ParallelError as refused:
        return str(refused)
    drawing = {name for stage in stages for name in stage.drawing}

    def through(arguments: dict[str, Any]) -> Any:
        given: Any = [each for each in arguments.values() if torch.is_tensor(each)]
        for stage in stages:
            given = stage.module(*given)
        return given

    expected = learned(alone, drawing, lambda arguments: alone(**arguments), given_too)
    found = learned(model, drawing, through, given_too)
    assert found[0] == pytest.approx(expected[0], rel=1e-12)
    assert found[2] == expected[2]
    for name, value in expected[1].items():
        assert torch.allclose(torch.tensor(found[1][name]), torch.tensor(value), rtol=1e-10), name
    return ""


_ANY = settings(
    deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.long
@settings(_ANY, max_examples=4)
@given(models(), st.integers(0, 1000))
def test_some_models_are_exact_or_refused(made: tuple[Made, dict[str, bool]], place: int) -> None:
    exact_or_refused(*made, place)


REASONS: list[str] = []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_models_are_exact_or_refused() -> None:
    @settings(_ANY, max_examples=200)
    @given(models(), st.integers(0, 1000))
    def check(made: tuple[Made, dict[str, bool]], place: int) -> None:
        REASONS.append(exact_or_refused(*made, place))

    check()
    refused = [reason for reason in REASONS if reason]
    assert len(REASONS) >= 200
    assert len(refused) < len(REASONS) / 2, refused
    assert all(": " in reason for reason in refused)

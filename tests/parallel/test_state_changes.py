"""What a model's calls change is neither lost nor done twice by cutting it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from counting_blocks import COUNTING, Counting, Slotted  # noqa: E402 - it needs torch
from torch import nn  # noqa: E402

from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import boundaries, cut, fingerprint  # noqa: E402
from launcher.parallel.profiling import Sample, profile  # noqa: E402

CALLS: list[int] = []


class Stateful(nn.Module):
    """A block whose `scale` may change something, and depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(6, 6)
        self.n = 0
        self.log: list[float] = []
        self.counts = {"calls": np.zeros(2)}
        self.register_buffer("mean", torch.ones(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.target = nn.Parameter(torch.ones(6), requires_grad=False)
        self.generator = torch.Generator().manual_seed(3)

    def scale(self, x: torch.Tensor) -> Any:
        return 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x).tanh() * self.scale(x)


class Attribute(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        self.n += 1
        return self.n


class Average(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            self.mean.mul_(0.5).add_(x.mean(), alpha=0.5)
        return self.mean.clone()


class Assigned(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        self.mean = 0.5 * self.mean + 0.5 * x.detach().mean()
        return self.mean


class InPlace(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        self.seen += 1
        return self.seen.clone()


class Containers(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        self.log.append(1.0)
        self.counts["calls"][0] += 1
        return len(self.log) + self.counts["calls"][0]


class ByData(Stateful):
    """Its parameter follows another one, as a target network does."""

    def scale(self, x: torch.Tensor) -> Any:
        self.target.data.mul_(0.5).add_(self.one.bias.data)
        return self.target.clone()


class OwnGenerator(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        return torch.rand(6, generator=self.generator, dtype=x.dtype)


class Global(Stateful):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CALLS.append(1)
        return self.one(x).tanh() * len(CALLS)


def hooked(register: str) -> Callable[[], nn.Module]:
    """A block with a hook that counts its calls and scales by their number."""

    def make() -> nn.Module:
        block = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        count = {"calls": 0}

        def forward_pre(module: nn.Module, args: Any) -> Any:
            count["calls"] += 1
            return (args[0] * count["calls"],)

        def forward(module: nn.Module, args: Any, output: Any) -> Any:
            count["calls"] += 1
            return output * count["calls"]

        def full_backward(module: nn.Module, entering: Any, leaving: Any) -> Any:
            count["calls"] += 1
            return tuple(each * count["calls"] for each in entering)

        hook = {"forward_pre": forward_pre, "forward": forward, "full_backward": full_backward}
        getattr(block, f"register_{register}_hook")(hook[register])
        block.counted = count
        return block

    return make


def normed(norm: Callable[..., nn.Module]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        return nn.Sequential(norm(nn.Linear(6, 6)), nn.Tanh())

    return make


class Blocks(nn.Module):
    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), make(), make(), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "a counter": Attribute,
    "a running average": Average,
    "an assigned buffer": Assigned,
    "a counter that is a buffer": InPlace,
    "a list and an array": Containers,
    "a parameter, by its data": ByData,
    "a generator": OwnGenerator,
    "a global list": Global,
    "a hook before": hooked("forward_pre"),
    "a hook after": hooked("forward"),
    "a hook backward": hooked("full_backward"),
    "weight norm": normed(nn.utils.parametrizations.weight_norm),
    "spectral norm": normed(nn.utils.parametrizations.spectral_norm),
    "spectral norm of old": normed(nn.utils.spectral_norm),
}


def trained(model: nn.Module, forward: Callable[[torch.Tensor], torch.Tensor]) -> list[float]:
    """The losses of three steps of two microbatches."""
    generator = torch.Generator().manual_seed(5)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            x = torch.randn(4, 6, generator=generator, dtype=torch.float64)
            loss = forward(x).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def made(make: Callable[[], nn.Module]) -> nn.Module:
    CALLS.clear()
    torch.manual_seed(0)
    return Blocks(make).double()


def state_of(model: nn.Module) -> list[Any]:
    """Whatever the blocks may change, as text."""
    names = ("n", "log", "counts", "counted")
    found: list[Any] = [repr(getattr(m, n)) for m in model.modules() for n in names if n in vars(m)]
    found += [
        m.generator.get_state().sum().item() for m in model.modules() if "generator" in vars(m)
    ]
    return [*found, len(CALLS), {k: v.tolist() for k, v in model.state_dict().items()}]


@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("start", ["layers.1", "layers.2"])
def test_what_a_block_changes_is_changed_once_per_microbatch(
    make: Callable[[], nn.Module], start: str
) -> None:
    alone = made(make)
    expected, state = trained(alone, alone), state_of(alone)
    model = made(make)
    stages = cut(model, (start,), {"x": torch.ones(4, 6, dtype=torch.float64)})

    def forward(x: torch.Tensor) -> torch.Tensor:
        for stage in stages:
            (x,) = found if isinstance(found := stage.module(x), tuple) else (found,)
        return x

    assert trained(model, forward) == expected
    assert state_of(model) == state
    assert len(set(expected)) == len(expected)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
def test_a_model_is_left_as_it_was(make: Callable[[], nn.Module]) -> None:
    model = made(make)
    before = state_of(model)
    example = {"x": torch.ones(4, 6, dtype=torch.float64)}
    cut(model, ("layers.2",), example)
    assert state_of(model) == before
    assert any(name.startswith("layers.2") for name in boundaries(model, example))
    assert state_of(model) == before
    fingerprint.compute(model, example)
    assert state_of(model) == before
    profile(model, Sample(arguments=example), device=torch.device("cpu"))
    assert state_of(model) == before


@pytest.mark.parametrize("kind", COUNTING.values(), ids=COUNTING)
def test_calls_are_counted_wherever_a_block_keeps_their_number(kind: type[Counting]) -> None:
    kind.reset()
    alone = made(kind)
    expected = trained(alone, alone)
    counts = [block.count() for block in alone.layers[1:3]]
    kind.reset()
    model = made(kind)
    example = {"x": torch.ones(4, 6, dtype=torch.float64)}
    costs = profile(model, Sample(arguments=example), device=torch.device("cpu")).modules
    stages = cut(model, ("layers.2",), example)
    assert not any(block.count() for block in model.layers[1:3])
    assert [each.name for each in costs] == [f"layers.{number}" for number in range(4)]

    def forward(x: torch.Tensor) -> torch.Tensor:
        return stages[1].module(*stages[0].module(x))

    assert trained(model, forward) == expected
    assert [block.count() for block in model.layers[1:3]] == counts


#: Places of which two blocks on two ranks would each have a copy.
_COMMON = {
    *("its class", "a global", "a helper's global", "a global object", "a function's attribute"),
    "a mutable default",
}


@pytest.mark.parametrize("name", COUNTING)
def test_counts_that_blocks_of_two_ranks_have_in_common_are_refused(name: str) -> None:
    COUNTING[name].reset()
    example = {"x": torch.ones(4, 6, dtype=torch.float64)}
    if name in _COMMON:
        with pytest.raises(ParallelError, match=r"stage 0 changes .*, which stage 1 reads"):
            cut(made(COUNTING[name]), ("layers.2",), example, apart=True)
    else:
        assert len(cut(made(COUNTING[name]), ("layers.2",), example, apart=True)) == 2


class Hook:
    """Counts its calls in an object with __slots__ and in a number."""

    def __init__(self) -> None:
        self.slotted, self.calls = Slotted(), 0

    def __call__(self, *_: object) -> None:
        self.slotted.calls += 1
        self.calls += 1


def test_what_a_hook_that_is_an_object_counts_is_put_back() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
    hook = Hook()
    model[1].register_forward_hook(hook)
    cut(model, ("1",), {"input": torch.ones(4, 6)})
    assert (hook.slotted.calls, hook.calls) == (0, 0)


class Advancing(Stateful):
    """Takes its scale from a generator."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = self._scales()

    @staticmethod
    def _scales() -> Iterator[int]:
        n = 0
        while True:
            n += 1
            yield n

    def scale(self, x: torch.Tensor) -> Any:
        return next(self.scales)


class InTheEnvironment(Stateful):
    def scale(self, x: torch.Tensor) -> Any:
        os.environ["CALLS"] = str(int(os.environ["CALLS"]) + 1)
        return int(os.environ["CALLS"])


class TrainedInTheEnvironment(InTheEnvironment):
    def scale(self, x: torch.Tensor) -> Any:
        return super().scale(x) if self.training else 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Advancing, "advances the generator Advancing._scales, which cannot be put back"),
        (InTheEnvironment, "in eval mode.*or a module counts its calls where that cannot be put"),
        (TrainedInTheEnvironment, "in train mode.*or a module counts its calls where that"),
    ],
)
def test_a_count_that_cannot_be_put_back_is_refused(
    kind: type[Stateful], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLS", "0")
    with pytest.raises(ParallelError, match=words):
        cut(Blocks(kind), ("layers.2",), {"x": torch.ones(4, 6)})


HOOKS = {
    "state_dict_pre": lambda module: module.register_state_dict_pre_hook(lambda *_: None),
    "state_dict_post": lambda module: module.register_state_dict_post_hook(lambda *_: None),
    "load_state_dict_pre": (
        lambda module: module.register_load_state_dict_pre_hook(lambda *_: None)
    ),
    "load_state_dict_post": (
        lambda module: module.register_load_state_dict_post_hook(lambda *_: None)
    ),
}


@pytest.mark.parametrize("register", HOOKS.values(), ids=HOOKS)
def test_a_module_with_a_hook_of_its_state_dict_stays_whole(register: Callable[..., Any]) -> None:
    inner = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    model, example = nn.Sequential(nn.Linear(6, 6), inner), {"input": torch.ones(2, 6)}
    assert boundaries(model, example) == ["1.0", "1.1"]
    register(inner)
    assert boundaries(model, example) == ["1"]
    stages = cut(model, ["1"], example)
    assert stages[1].module.get_submodule("1") is inner
    with pytest.raises(
        ParallelError, match=r"1 stays whole: has a hook .*; name 1 itself, or move"
    ):
        cut(model, ["1.1"], example)
    register(model)
    with pytest.raises(ParallelError, match=r"Sequential has a hook \(.*lambda.*: register it on"):
        cut(model, ["1"], example)


class Renamed(nn.Sequential):
    """Renames old entries before they are loaded, as transformers' Mamba does."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 6), nn.Linear(6, 6))
        self._register_load_state_dict_pre_hook(self.rename)

    def rename(self, state: dict[str, Any], prefix: str, *_: object) -> None:
        for name in [name for name in state if name.startswith(f"{prefix}old.")]:
            state[name.replace("old.", "0.", 1)] = state.pop(name)


def test_a_module_that_renames_what_it_loads_is_cut() -> None:
    model, example = nn.Sequential(nn.Linear(6, 6), Renamed()), {"input": torch.ones(2, 6)}
    assert boundaries(model, example) == ["1.0", "1.1"]
    assert len(cut(model, ["1.1"], example)) == 2
    assert len(cut(Renamed(), ["1"], example)) == 2


class LowRank(nn.Linear):
    """Adds its low-rank weights to its own in eval mode, as loralib's layers do."""

    def __init__(self) -> None:
        super().__init__(6, 6)
        self.weight.requires_grad = False
        self.down, self.up = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(6, 2))
        self.is_merged = False

    def train(self, mode: bool = True) -> LowRank:
        super().train(mode)
        if self.is_merged == mode:
            self.weight.data += (-1 if mode else 1) * self.up @ self.down
            self.is_merged = not mode
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + (0 if self.is_merged else x @ self.down.T @ self.up.T)


@pytest.mark.parametrize("is_merged", [False, True], ids=["apart", "merged"])
def test_what_the_mode_of_a_module_changes_is_left_as_it_was(is_merged: bool) -> None:
    model, example = Blocks(LowRank), {"x": torch.ones(4, 6)}
    model.layers[1].train(not is_merged)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    cut(model, ("layers.2",), example)
    profile(model, Sample(arguments=example), device=torch.device("cpu"))
    assert [each.training for each in model.layers[:3]] == [True, not is_merged, True]
    assert [each.is_merged for each in model.layers[1:3]] == [is_merged, False]
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


class OwnCounter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.n = 0
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return self.layers[1](self.layers[0](x))


class OwnAverage(OwnCounter):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.add_(1)
        return self.layers[1](self.layers[0](x))


class Twice(nn.Module):
    """Calls a block that counts before and after another one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Attribute(), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](self.layers[1](self.layers[0](x)))


def with_hook() -> nn.Module:
    model = Blocks(lambda: nn.Linear(6, 6))
    model.register_forward_hook(lambda *_: None)
    return model


def lazy() -> nn.Module:
    return Blocks(lambda: nn.LazyLinear(6))


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (OwnCounter, "the forward of OwnCounter cannot be traced.*changes 'n' of OwnCounter; move"),
        (OwnAverage, r"self.mean.add_\(1\)` changes mean; move that code into a module of its own"),
        (Twice, "layers.0 changes its own state and is called in the stages 0 and 1"),
        (with_hook, "Blocks has a hook .*: register it on one of its modules"),
        (lazy, "layers.1.weight of Blocks has no shape yet: call the model once with an example"),
    ],
    ids=["its counter", "its buffer", "a block in two stages", "its hook", "lazy modules"],
)
def test_what_would_be_lost_is_refused(make: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(ParallelError, match=words):
        cut(make(), ("layers.1",), {"x": torch.ones(4, 6)})


class SetsUp(nn.Module):
    """Its first call sets up what later ones use."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.kind: str | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind is None:
            self.kind = "tanh" if x.ndim == 2 else "sigmoid"
        return getattr(self.layers[1](self.layers[0](x)), self.kind)()


def test_what_a_first_call_sets_up_is_no_change() -> None:
    model, x = SetsUp(), torch.ones(4, 6)
    stages = cut(model, ("layers.1",), {"x": x})
    assert model.kind is None
    assert torch.equal(stages[1].module(*stages[0].module(x)), model(x))


class Late(nn.Module):
    """Creates a buffer in its first call, as some rotary tables do."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "late"):
            self.register_buffer("late", torch.full((6,), 0.5))
        return self.two(self.one(x) * self.late)


def test_a_module_that_creates_a_buffer_in_its_first_call_stays_whole() -> None:
    model = nn.Sequential(nn.Linear(6, 6), Late(), nn.Linear(6, 6))
    x = torch.ones(2, 6)
    stages = cut(model, ["2"], {"input": x})
    assert not hasattr(model[1], "late")
    assert torch.equal(stages[1].module(*stages[0].module(x)), model(x))
    with pytest.raises(
        ParallelError, match=r"1 stays whole: creates late in its first call; name 1"
    ):
        cut(nn.Sequential(nn.Linear(6, 6), Late()), ["1.two"], {"input": x})


def test_a_model_that_creates_a_buffer_in_its_first_call_is_called_first() -> None:
    x = torch.ones(2, 6)
    model = Late()
    with pytest.raises(ParallelError, match="Late creates late in its first call: call the model"):
        cut(model, ["two"], {"x": x})
    model(x)
    first, second = cut(model, ["two"], {"x": x})
    assert torch.equal(second.module(*first.module(x)), model(x))

"""The stages of a model, one after the other, are the model."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from architectures import ARCHITECTURES, Architecture, Gpt  # noqa: E402 - they need torch
from torch import nn  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import Pins, Stage, boundaries, cut, largest_uncut, trace  # noqa: E402

IDS = {"ids": torch.zeros(1, 3, dtype=torch.long)}


def through(stages: list[Stage], arguments: dict[str, Any]) -> Any:
    """What the last stage leaves; each gets what the one before it left, and nothing else."""
    given = tuple(arguments.values())
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        assert stage is stages[0] or len(given) == len(stage.inputs)
        given = stage.module(*given)
        assert following is None or stage.outputs == following.inputs
    return given


def seed() -> None:
    random.seed(2)
    np.random.seed(2)
    torch.manual_seed(2)


def draws() -> tuple[float, ...]:
    return random.random(), np.random.random(), torch.rand(()).item()


def total(value: Any) -> torch.Tensor:
    return sum((each * each.cos()).sum() for each in tree_leaves(value) if torch.is_tensor(each))


@pytest.mark.parametrize(
    "architecture",
    [
        # "dropout" is the same model in eval mode
        pytest.param(each, id=name, marks=pytest.mark.long if name == "gpt" else ())
        for name, each in ARCHITECTURES.items()
    ],
)
@pytest.mark.parametrize(
    "count", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 3, 4))]
)
def test_stages_are_the_model(architecture: Architecture, count: int) -> None:
    torch.manual_seed(0)
    model = architecture.make()
    arguments = architecture.arguments(torch.Generator().manual_seed(1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    seed()
    first = draws()
    seed()
    stages = cut(model, architecture.starts[: count - 1], arguments)
    assert len(stages) == count
    assert draws() == first  # cutting has drawn nothing
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def computed(run: Callable[[], Any], *, training: bool) -> list[Any]:
        model.load_state_dict(before)
        model.zero_grad()
        for part in (model, *(stage.module for stage in stages)):
            part.train(training)
        seed()
        output = run()
        total(output).backward()
        gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        return [*gradients, *(b.clone() for b in model.buffers()), *tree_leaves(output)]

    for training in (True, False):
        expected = computed(lambda: model(*arguments.values()), training=training)
        found = computed(lambda: through(stages, arguments), training=training)
        for a, b in zip(expected, found, strict=True):
            assert (a is None) == (b is None)
            assert a is None or (torch.equal(a, b) if torch.is_tensor(a) else a == b)


def test_a_skip_is_carried_through_the_stages_between() -> None:
    u_net = ARCHITECTURES["u-net"]
    arguments = u_net.arguments(torch.Generator().manual_seed(1))
    stages = cut(u_net.make(), ("down.1", "up.0", "up.1"), arguments)
    assert [len(stage.outputs) for stage in stages] == [1, 3, 2, 1]
    names = [{value.name for value in stage.outputs} for stage in stages]
    assert names[0] == names[1] & names[2]


@pytest.mark.long
def test_a_stage_holds_its_own_parameters_under_their_own_names() -> None:
    stages = cut(Gpt(), ("blocks.1", "head"), IDS)
    names = [{name for name, _ in stage.module.named_parameters()} for stage in stages]
    assert names[0] | names[1] | names[2] == {name for name, _ in Gpt().named_parameters()}
    assert names[2] == {"head.weight"}
    assert {"tokens.weight", "places"} < names[0]
    assert all(name.split(".")[1] in "123" for name in names[1] if name.startswith("blocks"))


def names_in(stages: list[Stage]) -> list[set[str]]:
    return [{name for name, _ in stage.module.named_parameters()} for stage in stages]


@pytest.mark.long
def test_pins_put_modules_into_stages() -> None:
    pins = Pins(stages={"blocks": 1, "blocks.3": 2, "norm": 2, "head": 2})
    pinned = cut(Gpt(), pins, IDS)
    started = cut(Gpt(), ("blocks.0", "blocks.3"), IDS)
    assert names_in(pinned) == names_in(started)
    taken = [[value.name for value in stage.inputs] for stage in pinned]
    assert taken == [[value.name for value in stage.inputs] for stage in started]


@pytest.mark.long
def test_pins_leave_the_rest_to_a_default_stage() -> None:
    pinned = cut(Gpt(), Pins(stages={"tokens": 0, "blocks.0": 0}, default=1), IDS)
    assert names_in(pinned) == names_in(cut(Gpt(), ("blocks.1",), IDS))


def test_modules_that_do_not_need_each_other_may_be_pinned_crosswise() -> None:
    architecture = ARCHITECTURES["encoder-decoder"]
    torch.manual_seed(0)
    model = architecture.make()
    arguments = architecture.arguments(torch.Generator().manual_seed(1))
    stages = cut(model, Pins(stages={"encoder.0": 0, "embed": 0}, default=1), arguments)
    order = [str(n.target) for n in trace(model, arguments).graph.find_nodes(op="call_module")]
    assert order.index("embed") > order.index("encoder.1")
    assert len(stages) == 2
    assert torch.equal(through(stages, arguments), model(*arguments.values()))


def with_parts(*names: str) -> Any:
    return lambda: nn.Sequential(OrderedDict((name, nn.Linear(6, 6)) for name in names))


class Overwriting(nn.Module):
    """Its second layer is called before what it was given is overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](x)
        y = self.layers[1](x)
        return y + self.layers[2](self.relu(x))


@pytest.mark.parametrize(
    ("model", "pins", "words"),
    [
        (
            Gpt,
            {"blocks.2": 1, "blocks.3": 0},
            "blocks.3.first in stage 0 needs .* of the later stage 1",
        ),
        (with_parts("body", "head"), {"tail": 1}, "'tail' is pinned, but the model calls no such"),
        (with_parts("body", "head"), {"heads": 1}, "no such module: did you mean 'head'"),
        (with_parts("body", "head"), {"head": 2}, "stage 1 has no module: pin a module to it"),
        (with_parts("body", "head"), {"head": -1}, "'head' is pinned to stage -1: stages are num"),
        (
            Overwriting,
            {"layers.1": 1},
            "relu modifies a tensor in place in stage 0, but the later stage 1",
        ),
    ],
    ids=["back", "unknown", "nearly", "a gap", "negative", "in place"],
)
def test_pins_that_cannot_be_are_refused(model: Any, pins: dict[str, int], words: str) -> None:
    name = {Gpt: "ids", Overwriting: "x"}.get(model, "input")
    arguments = IDS if model is Gpt else {name: torch.ones(1, 6)}
    with pytest.raises(ParallelError, match=words):
        cut(model(), Pins(stages=pins), arguments)


class Centred(nn.Module):
    """Changes its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x -= 1
        return self.layers[1](self.layers[0](x))


def test_an_input_that_the_model_changes_is_left_in_the_example() -> None:
    model, example = Centred(), {"x": torch.full((2, 6), 3.0)}
    stages = cut(model, ["layers.1"], example)
    assert torch.equal(example["x"], torch.full((2, 6), 3.0))
    expected = model(example["x"].clone())
    assert torch.equal(through(stages, example), expected)


class Adding(nn.Module):
    """A layer that adds to its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(self.bias)


@pytest.mark.parametrize("view", [nn.Flatten(), nn.Identity()], ids=["view", "itself"])
def test_a_stage_may_change_what_it_receives_or_a_view_of_it(view: nn.Module) -> None:
    example = {"input": torch.ones(2, 6)}
    model = nn.Sequential(nn.Linear(6, 6), view, Adding(), nn.Linear(6, 6))
    for start in ("1", "2"):
        stages = cut(model, (start,), example)
        assert torch.equal(through(stages, example), model(*example.values()))
    stages = cut(model, ("1",), example)
    received = torch.ones(2, 6, requires_grad=True)
    stages[1].module(received).sum().backward()
    assert torch.equal(received, torch.ones(2, 6))
    assert received.grad is not None


def test_modules_that_are_not_pinned_follow_those_whose_data_they_need() -> None:
    model = Gpt()
    first, second = cut(model, Pins(stages={"blocks.2": 1}), IDS)
    called = [
        {str(node.target).split(".first")[0] for node in each.module.graph.nodes}
        for each in (first, second)
    ]
    assert {"tokens", "blocks.1"} <= called[0]
    assert {"blocks.2", "blocks.3", "norm", "head"} <= called[1]
    assert torch.equal(through([first, second], IDS), model(**IDS))


def test_a_module_whose_inside_depends_on_values_stays_whole() -> None:
    depends = ARCHITECTURES["control flow inside"]
    arguments = depends.arguments(torch.Generator().manual_seed(1))
    with pytest.raises(ParallelError, match=r"start at 'layers\.1\.one' here: the model"):
        cut(depends.make(), ("layers.1.one",), arguments)


class ByValue(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) if x.sum() > 0 else x


class Draws(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x + torch.randn(6))


class DropsByNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * float(np.random.rand() < 0.5)


class ByNumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        return self.layers[1](self.layers[0](x)) * scale


class Masked(nn.Module):
    """Asks for one of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = self.layer(x)
        return x if mask is None else x * mask


class Several(nn.Module):
    """Takes as many arguments as it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat(inputs))


class Packed(nn.Module):
    """Packs its input by the lengths, so that its LSTM gets as many rows as they add up to."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0].mean(1)


class Turned(nn.Module):
    """Has a view of a parameter as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.weight = nn.Parameter(torch.ones(6, 6))
        self.turned = self.weight.t()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) @ self.turned


class Called(nn.Sequential):
    """Has a __call__ of its own."""

    def __call__(self, *given: Any) -> Any:
        return 2 * super().__call__(*given)


class Half(nn.Module):
    """Learns in one of its layers, and computes the other in another precision."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = self.layers[0](x)
        with torch.autocast("cpu", torch.bfloat16):
            x = self.layers[1](x)
        return self.layers[2](x.float())


def test_a_module_with_a_part_that_does_not_learn_stays_whole() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Half(), nn.Linear(6, 6))
    example = {"input": torch.randn(2, 6)}
    expected = model(*example.values())
    total(expected).backward()
    gradients = {name: each.grad for name, each in model.named_parameters()}
    model.zero_grad()
    found = through(cut(model, ["1"], example), example)
    total(found).backward()
    assert torch.equal(found, expected)
    assert gradients["0.layers.0.weight"] is None
    for name, each in model.named_parameters():
        assert (each.grad is None) == (gradients[name] is None), name
        assert each.grad is None or torch.equal(each.grad, gradients[name]), name


@pytest.mark.parametrize(
    ("make", "start", "arguments"),
    [
        (ByNumber, "layers.1", {"x": torch.ones(1, 6), "scale": 2.0}),
        (Masked, "layer", {"x": torch.ones(1, 6)}),
        (Masked, "layer", {"x": torch.ones(1, 6), "mask": None}),
        (Masked, "layer", {"x": torch.ones(1, 6), "mask": torch.zeros(1, 6)}),
    ],
    ids=["a number", "an argument left out", "None", "a tensor"],
)
def test_arguments_are_those_of_the_example(
    make: Any, start: str, arguments: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = make()
    starts = () if start == "layer" else (start,)
    tensors = {name: each for name, each in arguments.items() if torch.is_tensor(each)}
    assert torch.equal(through(cut(model, starts, arguments), tensors), model(**arguments))


@pytest.mark.parametrize(
    ("make", "starts", "arguments", "words"),
    [
        (ByValue, (), {"x": torch.ones(1, 6)}, "ByValue cannot be traced.*a module of its own"),
        (Several, (), {"inputs": torch.ones(1, 6)}, "Several takes .inputs: name each argument"),
        (Half, (), {"x": torch.ones(1, 6)}, "Half cannot be traced.*torch.no_grad, torch.autoc"),
        (
            DropsByNumpy,
            (),
            {"x": torch.ones(1, 6)},
            "DropsByNumpy cannot be traced.* draws random numbers; move that code",
        ),
        (
            Packed,
            (),
            {"x": torch.ones(2, 3, 6), "lengths": torch.tensor([3, 2])},
            "Packed cannot be traced.*`packed = pack.* depends on the values of tensors",
        ),
        (Turned, (), {"x": torch.ones(1, 6)}, "passes a tensor that was computed from parameters"),
        (
            lambda: Called(nn.Linear(6, 6)),
            (),
            {"input": torch.ones(1, 6)},
            "Called has a __call__ of its own, which no stage would call: move its code into forw",
        ),
        (
            with_parts("meta"),
            (),
            {"input": torch.ones(1, 6)},
            "Sequential has a part called 'meta', which .*: rename it",
        ),
        (
            with_parts("lambda"),
            (),
            {"input": torch.ones(1, 6)},
            "the name of lambda contains a keyword of Python.*: rename it",
        ),
        (ByNumber, (), {"x": torch.ones(1, 6)}, "the example lacks the required argument scale"),
        (ByNumber, ("layers.2",), {"x": torch.ones(1, 6), "scale": 2.0}, "start at 'layers.2'"),
        (
            ByNumber,
            ("layers.1", "layers.0"),
            {"x": torch.ones(1, 6), "scale": 2.0},
            "start at 'layers.0' here: the model calls its modules in this order: layers.0, lay",
        ),
    ],
    ids=[
        "its own values",
        "any arguments",
        "a part without gradients",
        "its random numbers",
        "a packed sequence",
        "a view of a parameter",
        "a call of its own",
        "an attribute's name",
        "a keyword",
        "an argument missing",
        "no such module",
        "wrong order",
    ],
)
def test_what_cannot_be_cut_is_refused(
    make: Any, starts: tuple[str, ...], arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParallelError, match=words):
        cut(make(), starts, arguments)


class Cropped(nn.Module):
    """Leaves out what is padding in all samples."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = x[:, : lengths.max()]
        x = self.layers[1](self.layers[0](x))
        return x.sum(1) / x.shape[1]


def test_a_shape_that_follows_from_values_must_be_that_of_the_example() -> None:
    model, x = Cropped(), torch.randn(2, 5, 6)
    example = {"x": x, "lengths": torch.tensor([4, 3])}
    stages = cut(model, ["layers.1"], example)
    assert torch.equal(through(stages, example), model(**example))
    words = r"`x = x\[:, : lengths.max\(\)\]` returned \(tensor\(2, 3, 6\)\) for this batch"
    with pytest.raises(ParallelError, match=words):
        through(stages, {"x": x, "lengths": torch.tensor([2, 3])})


class Seen(nn.Module):
    """Has features in place of some tokens, and counts these, as models of images and text do."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.features = nn.Embedding(9, 6), nn.Linear(3, 6)
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, ids: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        is_seen, features = ids == 8, self.features(pixels)
        count, places = is_seen.sum(), is_seen.nonzero()
        if count != len(features):
            raise ValueError(f"{count} tokens for {len(features)} features")
        x = self.tokens(ids).masked_scatter(is_seen.unsqueeze(-1), features)
        marked = x[is_seen].mean(0) / max(places.tolist()[0][1], 1)
        return self.layers[1](self.layers[0](x) + marked) / count.item()


class Inside(nn.Module):
    """Such a model within another one."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.head = Seen(), nn.Linear(6, 2)

    def forward(self, ids: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.model(ids, pixels))


@pytest.mark.parametrize(
    ("make", "starts"),
    [
        pytest.param(Seen, ["layers.0", "layers.1"], id="its own code"),
        pytest.param(Inside, ["model.layers.0", "model.layers.1"], id="that of its largest module"),
    ],
)
def test_what_code_reads_of_a_batch_must_be_as_in_the_example(
    make: type[nn.Module], starts: list[str]
) -> None:
    model = make()
    example = {"ids": torch.tensor([[1, 8, 2], [8, 3, 4]]), "pixels": torch.randn(2, 3)}
    assert set(starts) <= set(boundaries(model, example))
    stages = cut(model, starts, example)
    for ids in (example["ids"], torch.tensor([[5, 8, 7], [8, 0, 0]])):
        given = {"ids": ids, "pixels": torch.randn(2, 3)}
        assert torch.equal(through(stages, given), model(**given))
    for other in ([[8, 1, 2], [8, 3, 4]], [[1, 8, 2], [3, 4, 5]]):
        with pytest.raises(ParallelError, match=r"for this batch, but .* when the model was cut"):
            through(stages, {"ids": torch.tensor(other), "pixels": torch.randn(2, 3)})


def test_a_module_that_is_not_cut_reads_what_it_likes_of_a_batch() -> None:
    model = Inside()
    stages = cut(
        model, ["head"], {"ids": torch.tensor([[1, 8, 2], [8, 3, 4]]), "pixels": torch.randn(2, 3)}
    )
    given = {"ids": torch.tensor([[8, 1, 2], [3, 4, 4]]), "pixels": torch.randn(1, 3)}
    assert torch.equal(through(stages, given), model(**given))


class Guarded(nn.Module):
    """Cannot be cut inside: what its first layer computes decides about its second one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](x)
        return self.layers[1](x) if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        (nn.Sequential(Guarded(), nn.Linear(6, 2)), torch.ones(2, 6), ("0", 84 / 98)),
        (nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2)), torch.ones(2, 6), ("0", 42 / 56)),
        (nn.Identity(), torch.ones(2), ("", 0)),
    ],
    ids=["a large module", "layers", "nothing"],
)
def test_the_largest_module_that_is_not_cut_is_named_with_its_share(
    model: nn.Module, given: torch.Tensor, expected: tuple[str, float]
) -> None:
    assert largest_uncut(model, {"input": given}) == expected


class Gated(nn.Module):
    """Leaves out a layer as a parameter says, or as the layer before does."""

    def __init__(self, *, by_parameter: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.gate, self.by_parameter = nn.Parameter(torch.ones(())), by_parameter

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](x) * self.gate
        is_open = self.gate if self.by_parameter else x.argmax()
        return self.layers[1](x) if is_open.item() >= 0 else x


@pytest.mark.parametrize("by_parameter", [True, False], ids=["a parameter", "a module's output"])
def test_code_that_reads_what_training_changes_is_refused(by_parameter: bool) -> None:
    with pytest.raises(ParallelError, match=r"is_open.item.* depends on the values of tensors"):
        cut(Gated(by_parameter=by_parameter), ["layers.1"], {"x": torch.ones(2, 6)})


class Reused(nn.Module):
    """Calls a part of its first block again behind the last one, as DiT's transformer does."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for block in self.blocks:
            y = block(y)
        return y + self.blocks[0][0](x)


def test_a_part_that_is_called_again_is_where_its_second_call_is() -> None:
    first, second = cut(Reused(), ["blocks.1.0.0"], {"x": torch.ones(4, 6)})
    assert dict(first.drawing) == {"blocks.0.0.1": 0}
    assert dict(second.drawing) == {"blocks.0.0.1": 1, "blocks.1.0.1": 0, "blocks.2.0.1": 0}
    for name in second.drawing:
        second.module.get_submodule(name)


class Adapter(nn.Module):
    """Reads its input again after the dropout, which in eval mode returns its very input."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.one, self.two = nn.Dropout(0.5), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(self.drop(x)) + self.two(x)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_what_goes_into_a_dropout_may_be_used_beside_it(training: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), Adapter(), Adapter())
    given = {"input": torch.randn(4, 3)}
    stages = cut(model, ["1.two", "2.two"], given)
    for part in (model, *(stage.module for stage in stages)):
        part.train(training)
    seed()
    expected = model(*given.values())
    seed()
    assert torch.equal(through(stages, given), expected)


class Reverse(torch.autograd.Function):
    """Passes a tensor on, and its gradient back with another sign."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


reverse = Reverse.apply  # as most code calls such a function


class Adversarial(nn.Module):
    def __init__(self, turn: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)])
        self.shift = nn.Parameter(torch.ones(6))
        self.turn = turn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[1](self.turn(self.layers[0](x)) + self.turn(self.shift))
        return self.layers[2](x)


@pytest.mark.parametrize(
    "turn", [reverse, lambda x: Reverse.apply(x)], ids=["by another name", "by its own name"]
)
@pytest.mark.parametrize("start", ["layers.1", "layers.2"])
def test_the_backward_of_an_autograd_function_is_that_of_stages(turn: Any, start: str) -> None:
    model, arguments = Adversarial(turn), {"x": torch.randn(2, 6)}
    total(model(**arguments)).backward()
    expected = [each.grad for each in model.parameters()]
    model.zero_grad()
    total(through(cut(model, [start], arguments), arguments)).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)


@dataclass(slots=True)
class Slotted:
    values: torch.Tensor


class WithSlots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, given: Slotted) -> Slotted:
        return Slotted(self.two(self.one(given.values)))


def test_dataclasses_may_have_slots() -> None:
    model, x = WithSlots(), torch.ones(2, 6)
    found = through(cut(model, ["two"], {"given": Slotted(x)}), {"given": x})
    assert torch.equal(found.values, model(Slotted(x)).values)

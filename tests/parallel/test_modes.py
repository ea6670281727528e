"""Models whose own code draws random numbers, or does something else in eval mode, are cut."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from mode_zoo import WIDTH, ZOO, Blocks, Encoder  # noqa: E402 - they need torch
from ranks import noted  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.functional import dropout  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from zoo_learning import learn  # noqa: E402

from launcher import parallel  # noqa: E402
from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import Pins, Pipeline, Randomness, Reshaping, Stage, boundaries, cut  # noqa: E402

#: A model that draws by a function, one with other code in train mode, and two with modules that
#: draw by a function.
QUICK = ("FunctionalDropout", "AuxiliaryHeads", "TwoEncoders", "CalledTwice")


def through(stages: list[Stage], x: Any, *, training: bool) -> list[torch.Tensor]:
    output: Any = [x]
    for stage in stages:
        stage.module.train(training)
        output = stage.in_mode(training).module(*output)
    return [each for each in tree_leaves(output) if each is not None]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in ZOO],
)
def test_stages_draw_and_compute_what_the_model_does(name: str) -> None:
    torch.manual_seed(0)
    model = ZOO[name].make().double()
    alone = copy.deepcopy(model)
    example = {"x": torch.randn(4, WIDTH, dtype=torch.float64)}
    places = boundaries(model, example)
    drawing = None
    for starts in ([], [places[2]], [places[1], places[3], places[-1]]):
        ours, theirs = copy.deepcopy(model), copy.deepcopy(alone)
        stages = cut(ours, starts, example)
        if drawing is None:  # of the whole model
            drawing = {*stages[0].in_mode(True).drawing, *stages[0].in_mode(False).drawing}
        every = [Randomness(each, drawing, seed=3) for each in (ours, theirs)]
        for training in (True, False):
            for stage in stages:
                every[0].seed_draws(stage.in_mode(training).module.graph)
            theirs.train(training)
            for microbatch in range(2):
                x = torch.randn(4, WIDTH, dtype=torch.float64)
                for each in every:
                    each.set_position(step=5, replica=1, microbatch=microbatch)
                torch.manual_seed(microbatch)
                before = torch.get_rng_state()
                found = through(stages, x, training=training)
                assert torch.equal(torch.get_rng_state(), before), "all draws are seeded"
                expected = [each for each in tree_leaves(theirs(x)) if each is not None]
                assert len(found) == len(expected) == (3 if "Aux" in name and training else 1)
                assert all(map(torch.equal, found, expected))


@pytest.mark.long
def test_they_learn_and_evaluate_what_one_process_does(tmp_path: Path) -> None:
    rows = learn(tmp_path, "mode_zoo", list(ZOO), stages=2, evaluates=True)
    rows += learn(tmp_path, "mode_zoo", list(ZOO)[:3], stages=3, evaluates=True)
    assert [str(row) for row in rows if not row.is_exact] == []


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_stages_for_other_shapes_draw_what_the_model_does(training: bool) -> None:
    torch.manual_seed(0)
    ours = ZOO["FunctionalDropout"].make().double()
    theirs = copy.deepcopy(ours).train(training)
    first, other = (torch.randn(samples, WIDTH, dtype=torch.float64) for samples in (4, 6))
    cut(ours, ["blocks.3"], {"x": first})
    reshaped = Reshaping(ours, ["blocks.3"]).stages({"x": other}, torch.device("cpu"))
    every = [Randomness(each, ["", "drop"]) for each in (ours, theirs)]
    for stage in reshaped:
        every[0].seed_draws(stage.in_mode(training).module.graph)
    (found,) = through(reshaped, other, training=training)
    assert torch.equal(found, theirs(other))


def test_a_module_that_draws_between_its_blocks_is_cut_there() -> None:
    example = {"x": torch.randn(4, WIDTH, dtype=torch.float64)}
    places = boundaries(ZOO["TwoEncoders"].make().double(), example)
    lists = ("encoder.layers", "decoder.layers", "decoder.layers.1.layers")
    blocks = {f"{name}.{number}" for name in lists for number in range(3)}
    assert blocks - set(places) == {"encoder.layers.0", "decoder.layers.1"}


class Checkpointed(Encoder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = dropout(x, 0.3, self.training)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


def test_a_module_that_checkpoints_its_blocks_stays_whole() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Checkpointed(), nn.Linear(WIDTH, 3)).double()
    example = {"input": torch.randn(4, WIDTH, dtype=torch.float64)}
    assert boundaries(model, example) == ["1", "2"]
    assert dict(cut(model, (), example)[0].drawing) == {"1": 0}


class Silenced(Blocks):
    """Drops all that its first block returns in train mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks[1](dropout(self.blocks[0](x), 1.0, self.training)))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_dropout_may_drop_all(training: bool) -> None:
    model, x = Silenced(), torch.randn(4, WIDTH)
    stages = cut(model, ["blocks.1"], {"x": x})
    (found,) = through(stages, x, training=training)
    assert torch.equal(found, model.train(training)(x))


def test_a_start_may_be_a_module_of_train_mode() -> None:
    example = {"x": torch.randn(4, WIDTH, dtype=torch.float64)}
    stages = cut(ZOO["AuxiliaryHeads"].make().double(), ["first"], example)
    assert [len(through(stages, example["x"], training=mode)) for mode in (True, False)] == [3, 1]


def test_pins_hold_in_both_modes() -> None:
    model = ZOO["ByHand"].make().double()
    example = {"x": torch.randn(4, WIDTH, dtype=torch.float64)}
    pins = {"blocks.3": 1, "blocks.4": 1, "norm": 1, "head": 1}
    first, second = cut(model, Pins(stages=pins), example)
    assert [hasattr(each.module, "calibration") for each in (first, second)] == [True, False]


def test_a_stage_without_a_module_in_eval_mode_is_refused() -> None:
    model = ZOO["AuxiliaryHeads"].make().double()
    example = {"x": torch.randn(4, WIDTH, dtype=torch.float64)}
    with pytest.raises(ParallelError, match="stage 1 calls no module in eval mode"):
        cut(model, ["first", "blocks.2"], example)


class Frozen(Blocks):
    """Keeps its batch norm in eval mode, as detectors do."""

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks[0](x)))


def test_a_model_may_keep_modules_in_eval_mode() -> None:
    world = parallel.init()
    try:
        pipeline = Pipeline(
            Frozen(),
            world,
            starts=(),
            example={"x": torch.ones(16, WIDTH)},
            loss=lambda output, target: output.mean(),
        )
        pipeline.train(False)
        pipeline.train(True)
        modes = {name: each.training for name, each in pipeline.module.named_children()}
        assert modes == {"blocks": True, "norm": False, "head": True}
    finally:
        parallel.leave()


_TRAIN_OF_OTHERS = """

class LowRank(nn.Embedding):
    '''Adds its low-rank weights to its own in eval mode, as loralib's embedding does.'''

    def __init__(self):
        super().__init__(7, 4)
        self.down, self.up = nn.Parameter(torch.ones(2, 7)), nn.Parameter(torch.ones(4, 2))
        self.is_merged = False

    def train(self, mode=True):
        super().train(mode)
        if self.is_merged == mode:
            self.weight.data += (-1 if mode else 1) * (self.up @ self.down).transpose(0, 1)
            self.is_merged = not mode
        return self

    def forward(self, ids):
        low = 0 if self.is_merged else (self.up @ self.down).transpose(0, 1)[ids]
        return super().forward(ids) + low

world = parallel.init(pipeline=2, microbatches=2)
torch.manual_seed(0)
model = nn.Sequential(LowRank(), nn.Linear(4, 3))
ids = torch.arange(4)
alone = model(ids).square().mean().item()
pipeline = Pipeline(
    model, world, starts=["1"], example={"input": ids[:2]},
    loss=lambda output, target: output.square().mean(),
)
losses, modes = [], []
for training in (False, True):
    pipeline.train(training)
    losses.append(pipeline.evaluate(ids, target=ids).item())
    modes.append([each.training for each in model])
note([alone, losses, modes])
"""


@pytest.mark.long
def test_each_rank_sets_the_mode_of_its_own_modules(tmp_path: Path) -> None:
    own = ([[False, True], [True, True]], [[True, False], [True, True]])
    for (alone, losses, found), modes in zip(noted(tmp_path, _TRAIN_OF_OTHERS), own, strict=True):
        assert losses == pytest.approx([alone, alone])
        assert found == modes


class Backwards(Blocks):
    """Calls its blocks in another order in eval mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks if self.training else reversed(self.blocks):
            x = block(x)
        return self.head(x)


def test_another_order_in_eval_mode_is_refused() -> None:
    example = {"x": torch.randn(4, WIDTH)}
    with pytest.raises(ParallelError, match=r"in eval mode, .* needs"):
        cut(Backwards(), ["blocks.2"], example)


NUMBERS = iter(range(1000))


class Numbered(Blocks):
    """Adds a number in train mode that no trace can see."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks[0](x)
        if self.training:
            x = x + next(NUMBERS)
        return self.head(self.blocks[1](x))


def test_what_no_trace_can_see_in_train_mode_is_refused() -> None:
    with pytest.raises(ParallelError, match="compute another output"):
        cut(Numbered(), ["blocks.1"], {"x": torch.randn(4, WIDTH)})

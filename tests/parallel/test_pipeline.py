"""A pipeline learns what one process learns from the same microbatches."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted, run

pytest.importorskip("torch")

from architectures import ARCHITECTURES

_PREAMBLE = """
from dataclasses import replace
from learning import Course, furthest, in_one_process, norms_apart, state_of

def loss(output, target):
    floats = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in floats) * target.mean()

def course(architecture, dtype, steps, **shares):
    generator = torch.Generator().manual_seed(7)
    found = Course(given=(), targets=(), loss=loss, **shares)
    count = steps * found.replicas * found.batches * found.microbatches
    every = [architecture.arguments(generator) for _ in range(count)]
    return replace(
        found,
        given=[{k: v if k == "ids" else v.to(dtype) for k, v in each.items()} for each in every],
        targets=[torch.full((4,), 1.0 + n / 7, dtype=dtype) for n in range(count)],
    )
"""

_AGAINST_ONE_PROCESS = """
MANY = {many}
found = {{}}
world = parallel.init(
    pipeline={stages}, virtual_stages={virtual}, microbatches=MANY, placement="spread"
)

def learned(name, schedule, dtype, make):
    architecture, replicas = ARCHITECTURES[name], parallel.dp_size()
    torch.manual_seed(0)
    model = architecture.make().to(dtype)
    alone = copy.deepcopy(model)
    lessons = course(architecture, dtype, 5, replicas=replicas, microbatches=MANY, clip=0.05)
    theirs = in_one_process(lessons, alone, make(alone.parameters()))

    every = list(model.parameters())
    pipeline = Pipeline(
        model, world, starts=architecture.starts[: world.degrees.stages - 1],
        example=lessons.given[0], loss=loss, schedule=schedule,
    )
    optimizer = make(pipeline.parameters())
    norms = []
    for step in lessons.steps:
        optimizer.zero_grad()
        given, target = lessons.batch(step, parallel.dp_rank())
        pipeline.step(*given.values(), target=target)
        norms.append(pipeline.clip(lessons.clip).item())
        optimizer.step()
    # Each replica has statistics of its own.
    buffers = [] if replicas > 1 else pipeline.module.named_buffers()
    named = [*pipeline.module.named_parameters(), *buffers]
    own = {{id(p) for p in pipeline.parameters()}}
    held = sum(p.untyped_storage().nbytes() for p in every if id(p) not in own)
    needed = 8 * (len(every) - len(own))  # one number each
    worst = max(norms_apart(norms, theirs.norms), furthest(named, state_of(alone)))
    return [worst, max(held - needed, 0)]

for name, schedule in itertools.product({names}, {schedules}):
    for dtype, make in (
        (torch.float64, lambda p: torch.optim.AdamW(p, lr=0.01)),
        (torch.float32, lambda p: torch.optim.SGD(p, lr=0.05)),
    ):
        found[f"{{name}}, {{schedule}}, {{dtype}}"] = learned(name, schedule, dtype, make)
note(found)
"""


_LONG = [pytest.mark.slow, pytest.mark.timeout(900)]
_ONE_STAGE = ("simple", "interleaved")
_SEVERAL = ("interleaved", "zero_bubble")


#: Ranks of a pipeline, stages on each, microbatches: p, 2 p and 7.
_PIPELINES = [(p, 1, m) for p in (1, 2, 3, 4) for m in sorted({p, 2 * p, 7})] + [(2, 2, 4)]
_CASES = [(p, p, v, m) for p, v, m in _PIPELINES]
_CASES += [(4, 2, v, m) for v, m in ((1, 2), (1, 4), (1, 7), (2, 2))]  # two replicas
_EVERY = list(ARCHITECTURES)


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "schedules", "ranks", "stages", "virtual", "many"),
    [
        (_EVERY, _ONE_STAGE, 2, 2, 1, 2),
        (["mlp", "gpt, tied", "resnet, group norm"], _SEVERAL, 2, 2, 2, 2),
        (["gpt, tied", "lstm"], ("zero_bubble",), 2, 2, 1, 4),
        *(
            pytest.param(_EVERY, _SEVERAL if case[2] > 1 else _ONE_STAGE, *case, marks=_LONG)
            for case in _CASES
            if case != (2, 2, 1, 2)
        ),
    ],
    ids=lambda value: str(value if isinstance(value, int) else len(value)),
)
def test_a_pipeline_learns_what_one_process_does(
    tmp_path: Path,
    names: list[str],
    schedules: tuple[str, ...],
    ranks: int,
    stages: int,
    virtual: int,
    many: int,
) -> None:
    script = _PREAMBLE + _AGAINST_ONE_PROCESS.format(
        stages=stages, virtual=virtual, many=many, schedules=schedules, names=names
    )
    for found in noted(tmp_path, script, ranks=ranks):
        assert len(found) == len(names) * len(schedules) * 2
        for what, (difference, foreign) in found.items():
            assert difference <= (1e-10 if "float64" in what else 1e-5), what
            assert foreign == 0, f"{what}: parameters of other stages are held"


_ACCUMULATED = """
architecture = ARCHITECTURES["gpt, tied"]
torch.manual_seed(0)
model = architecture.make().double()
alone = copy.deepcopy(model)
lessons = course(architecture, torch.float64, 1, batches=3, microbatches=2)
in_one_process(lessons, alone, torch.optim.SGD(alone.parameters(), lr=0.0))
world = parallel.init(pipeline=2, microbatches=2, accumulation=3)
pipeline = Pipeline(model, world, starts=("blocks.2",), example=lessons.given[0], loss=loss)
told = []
for batch in range(3):
    given, target = lessons.batch(0, 0, batch)
    told.append(pipeline.step(*given.values(), target=target, is_last=batch == 2).item())
reference = {name: each.grad for name, each in state_of(alone).items()}
own = {name: each.grad for name, each in pipeline.module.named_parameters()}
note([list(own), furthest(own.items(), reference), told])
"""


@pytest.mark.long
def test_accumulated_batches_are_one_of_their_size_also_for_tied_parameters(tmp_path: Path) -> None:
    (first, *others), (last, *others_too) = noted(tmp_path, _PREAMBLE + _ACCUMULATED)
    assert "tokens.weight" in first
    assert "head.weight" in last
    assert max(others[0], others_too[0]) <= 1e-12
    assert others[1] == others_too[1]  # every rank of a replica is told the loss


_SHAPES = """
world = parallel.init(pipeline=2, microbatches=2)
torch.manual_seed(0)
model = ARCHITECTURES["gpt, tied"].make().double()
alone = copy.deepcopy(model)
loss = lambda output, target: output.sin().mean()
ids = lambda samples, length: torch.randint(0, 19, (samples, length))
pipeline = Pipeline(
    model, world, starts=["blocks.2"], example={"ids": ids(4, 9)}, loss=loss, schedule="simple"
)
own = torch.optim.SGD(pipeline.parameters(), lr=0.1)  # which does not magnify tiny gradients
theirs = torch.optim.SGD(alone.parameters(), lr=0.1)
for samples, length in [(8, 9), (6, 5), (8, 9), (2, 16)]:
    batch = ids(samples, length)
    pipeline.expect(batch[: samples // 2])
    own.zero_grad()
    pipeline.step(batch, target=torch.ones(2))
    own.step()
    theirs.zero_grad()
    loss(alone(batch), None).backward()
    theirs.step()
words = pipeline.is_first and refused(pipeline.step, ids(8, 9))
note([furthest(pipeline.module.named_parameters(), state_of(alone)), words])
"""


@pytest.mark.long
def test_batches_of_other_shapes_are_announced(tmp_path: Path) -> None:
    (first, words), (last, _) = noted(tmp_path, _PREAMBLE + _SHAPES)
    assert max(first, last) <= 1e-10
    assert "shapes (4, 9) torch.int64, but the pipeline expects (1, 16) torch.int64: pad" in words


_REFUSED = """
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.layer = nn.Linear(6, 6)
    def forward(self, x):
        return self.norm(self.layer(self.norm(x)))

def step(samples=5, unfreezes=False, **changes):
    given = dict(starts=("1",), example={"input": torch.ones(4, 6)}, loss=loss)
    model = changes.pop("model", None) or ARCHITECTURES["mlp"].make()
    next(model.children()).requires_grad_(not unfreezes)
    made = Pipeline(model, world, **{**given, **changes})
    next(model.children()).requires_grad_(True)
    made.step(torch.ones(samples, 6), target=torch.ones(samples))

world = parallel.init(pipeline=2, microbatches=2)
words = {
    "starts": refused(step, starts=("1", "2")),
    "schedule": refused(step, schedule="1f1b"),
    "buffers": refused(step, model=Twice(), starts=("layer",), example={"x": torch.ones(4, 6)}),
}
if parallel.rank() == 0:
    words["batch"] = refused(step)
    words["one microbatch"] = refused(step, samples=4)
note(words)
words["unfrozen"] = refused(step, samples=8, unfreezes=True)  # rank 1 fails once rank 0 has left
note(words)
os._exit(0)
"""


def test_what_would_not_be_exact_is_refused(tmp_path: Path) -> None:
    outcome = run(tmp_path, _PREAMBLE + _REFUSED, ranks=2)
    words = outcome.notes[0]
    assert "2 starts make 3 stages, but the pipeline has 2: name the first" in words["starts"]
    assert "schedule is '1f1b': use 'simple' or 'interleaved'" in words["schedule"]
    assert "norm changes its own state and is called in the stages 0 and 1" in words["buffers"]
    assert "a batch of 5 samples cannot be split into 2 microbatches" in words["batch"]
    single = "this batch has the shapes of a single microbatch, (4, 6) torch.float32, but is split"
    assert f"{single} into 2: pad it to 2 times as many samples, or use" in words["one microbatch"]
    assert "stage 0 has parameters that were frozen when the pipeline was" in words["unfrozen"]
    assert outcome.notes[1].keys() == words.keys() - {"batch", "one microbatch", "unfrozen"}


_EVALUATED = """
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.3))
        self.layers = nn.ModuleList([layer, copy.deepcopy(layer)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

world = parallel.init(pipeline=2, microbatches=2)
torch.manual_seed(0)
model = Mixed().double()
alone = copy.deepcopy(model)
every = [torch.randn(8, 6, dtype=torch.float64) for _ in range(6)]
target = torch.ones(8, dtype=torch.float64)
pipeline = Pipeline(
    model, world, starts=("layers.1",), example={"x": every[0][:4]}, loss=loss, schedule="simple"
)
own = torch.optim.SGD(pipeline.parameters(), lr=0.5)
randomness = Randomness(alone, cut(alone, (), {"x": every[0][:4]})[0].drawing)
theirs = torch.optim.SGD(alone.parameters(), lr=0.5)
losses, step = [], 0
for batch, training in zip(every, (True, True, False, False, True, True)):
    alone.train(training)
    pipeline.train(training)
    halves = []
    for microbatch, half in enumerate(batch.split(4)):
        randomness.set_position(step=step, replica=0, microbatch=microbatch)
        with torch.set_grad_enabled(training):
            halves.append(loss(alone(half), target[:4]))
    if training:
        own.zero_grad()
        told = pipeline.step(batch, target=target)
        own.step()
        theirs.zero_grad()
        (sum(halves) / 2).backward()
        theirs.step()
        step += 1
    else:
        told = pipeline.evaluate(batch, target=target)
    losses.append([told.item(), (sum(halves) / 2).item()])
note([losses, furthest(pipeline.module.state_dict().items(), alone.state_dict())])
"""


@pytest.mark.long
def test_training_continues_after_an_evaluation_as_in_one_process(tmp_path: Path) -> None:
    for losses, worst in noted(tmp_path, _PREAMBLE + _EVALUATED):
        assert worst <= 1e-10
        assert losses[2] != losses[3]
        for own, theirs in losses:
            assert own == pytest.approx(theirs, rel=1e-6)


_RECOMPUTED = """
from torch.utils.checkpoint import checkpoint
from launcher.parallel.recomputation import recompute

class Frugal(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 6))
        self.layers = nn.ModuleList([layer() for _ in range(4)])
        self.head, self.is_frugal = nn.Linear(6, 2), True
    def forward(self, x):
        for layer in self.layers:
            is_frugal = self.training and self.is_frugal
            x = x + (checkpoint(layer, x, use_reentrant=False) if is_frugal else layer(x))
        return self.head(x)

world = parallel.init(pipeline=2, microbatches=2)
torch.manual_seed(0)
model = Frugal().double()
alone = copy.deepcopy(model)
alone.is_frugal = False
recompute(alone, ["layers"])  # the same draws, as each layer is one module
given = [{"x": torch.randn(4, 6, dtype=torch.float64)} for _ in range(6)]
targets = [torch.ones(4).double() for _ in given]
lessons = Course(given=given, targets=targets, loss=loss, microbatches=2, clip=0.05)
in_one_process(lessons, alone, torch.optim.AdamW(alone.parameters(), lr=0.01))
pipeline = Pipeline(model, world, starts=["layers.2"], example=given[0], loss=loss)
optimizer = torch.optim.AdamW(pipeline.parameters(), lr=0.01)
calls = []
for name, each in pipeline.module.named_modules():
    if type(each) is nn.Tanh:
        each.register_forward_hook(lambda *_, name=name: calls.append(name))
for step in lessons.steps:
    optimizer.zero_grad()
    batch, target = lessons.batch(step, 0)
    pipeline.step(*batch.values(), target=target)
    pipeline.clip(lessons.clip)
    optimizer.step()
note([furthest(pipeline.module.named_parameters(), state_of(alone)), len(calls)])
"""


def test_what_a_model_calls_by_a_checkpoint_is_recomputed_in_its_stage(tmp_path: Path) -> None:
    for worst, calls in noted(tmp_path, _PREAMBLE + _RECOMPUTED):
        assert worst <= 1e-10
        assert calls == 2 * 2 * 3 * 2  # layers of a stage, microbatches, steps, passes

"""A pipeline learns what one process learns from the same microbatches."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run

pytest.importorskip("torch")

from architectures import ARCHITECTURES

_TESTS = Path(__file__).parent
_PREAMBLE = f"""
import copy, itertools
sys.path.append({str(_TESTS)!r})
from architectures import ARCHITECTURES
from torch.utils._pytree import tree_leaves
from launcher.parallel.pipeline import Pipeline
from launcher.parallel.randomness import Randomness
from launcher.parallel.stages import cut
from launcher.errors import ParallelError

STEPS, CLIP = 5, 0.05

def loss(output, target):
    floats = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in floats) * target.mean()

def batches(architecture, count, dtype):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        found = architecture.arguments(generator)
        yield {{k: v if k == "ids" else v.to(dtype) for k, v in found.items()}}

def targets(count, dtype):
    return [torch.full((4,), 1.0 + number / 7, dtype=dtype) for number in range(count)]
"""

_AGAINST_ONE_PROCESS = """
MANY = {many}
found = {{}}
world = parallel.init(
    pipeline={stages}, virtual_stages={virtual}, microbatches=MANY, placement="spread"
)
for name in {names}:
    architecture = ARCHITECTURES[name]
    for schedule in {schedules}:
        for dtype, make in (
            (torch.float64, lambda p: torch.optim.AdamW(p, lr=0.01)),
            (torch.float32, lambda p: torch.optim.SGD(p, lr=0.05)),
        ):
            torch.manual_seed(0)
            model = architecture.make().to(dtype)
            alone = copy.deepcopy(model)
            replicas = parallel.dp_size()
            all_batches = list(batches(architecture, STEPS * MANY * replicas, dtype))
            all_targets = targets(STEPS * MANY * replicas, dtype)

            randomness = Randomness(alone, cut(alone, (), all_batches[0])[0].drawing)
            optimizer = make(alone.parameters())
            norms = []
            for step in range(STEPS):
                optimizer.zero_grad()
                for number in range(MANY * replicas):
                    at = step * MANY * replicas + number
                    replica, microbatch = divmod(number, MANY)
                    randomness.set_position(step=step, replica=replica, microbatch=microbatch)
                    value = loss(alone(**all_batches[at]), all_targets[at])
                    (value / MANY / replicas).backward()
                norms.append(torch.nn.utils.clip_grad_norm_(alone.parameters(), CLIP).item())
                optimizer.step()
            assert max(norms) > CLIP, norms

            every = list(model.parameters())
            pipeline = Pipeline(
                model, world, starts=architecture.starts[: world.degrees.stages - 1],
                example=all_batches[0], loss=loss, schedule=schedule,
            )
            optimizer = make(pipeline.parameters())
            own_norms = []
            for step in range(STEPS):
                optimizer.zero_grad()
                first = step * MANY * replicas + parallel.dp_rank() * MANY
                mine = all_batches[first : first + MANY]
                whole = [torch.cat([each[key] for each in mine]) for key in mine[0]]
                pipeline.step(*whole, target=torch.cat(all_targets[first : first + MANY]))
                own_norms.append(pipeline.clip(CLIP).item())
                optimizer.step()

            reference = dict(itertools.chain(
                alone.named_parameters(remove_duplicate=False), alone.named_buffers()
            ))
            worst = max(abs(a - b) / max(a, 1e-12) for a, b in zip(norms, own_norms))
            for key, own in itertools.chain(
                pipeline.module.named_parameters(), pipeline.module.named_buffers()
            ):
                theirs = reference[key].double()
                if replicas > 1 and key in dict(pipeline.module.named_buffers()):
                    continue  # each replica has statistics of its own
                difference = (own.double() - theirs).norm() / theirs.norm().clamp_min(1e-9)
                worst = max(worst, difference.item())
            own = {{id(p) for p in pipeline.parameters()}}
            held = sum(p.untyped_storage().nbytes() for p in every if id(p) not in own)
            needed = 8 * (len(every) - len(own))  # one number each
            found[f"{{name}}, {{schedule}}, {{dtype}}"] = [worst, max(held - needed, 0)]
note(found)
parallel.leave()
"""


_LONG = [pytest.mark.slow, pytest.mark.timeout(900)]
_ONE_STAGE = ("simple", "interleaved")
_SEVERAL = ("interleaved", "zero_bubble")


#: Ranks of a pipeline, stages on each, microbatches: p, 2 p and 7.
_PIPELINES = [(p, 1, m) for p in (1, 2, 3, 4) for m in sorted({p, 2 * p, 7})] + [(2, 2, 4)]
_CASES = [(p, p, v, m) for p, v, m in _PIPELINES]
_CASES += [(4, 2, v, m) for v, m in ((1, 2), (1, 4), (1, 7), (2, 2))]  # two replicas


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranks", "stages", "virtual", "many"),
    [case if case == (2, 2, 1, 2) else pytest.param(*case, marks=_LONG) for case in _CASES],
    ids=lambda number: str(number),
)
def test_a_pipeline_learns_what_one_process_does(
    tmp_path: Path, ranks: int, stages: int, virtual: int, many: int
) -> None:
    schedules = _SEVERAL if virtual > 1 else _ONE_STAGE
    check(tmp_path, list(ARCHITECTURES), ranks, stages, virtual, many, schedules)


@pytest.mark.long
def test_some_learn_so_with_two_stages_on_each_rank(tmp_path: Path) -> None:
    check(tmp_path, ["mlp", "gpt, tied", "resnet, group norm"], 2, 2, 2, 2, _SEVERAL)


@pytest.mark.long
def test_some_learn_so_without_a_bubble(tmp_path: Path) -> None:
    check(tmp_path, ["gpt, tied", "lstm"], 2, 2, 1, 4, ("zero_bubble",))


def check(
    tmp_path: Path,
    names: list[str],
    ranks: int,
    stages: int,
    virtual: int,
    many: int,
    schedules: tuple[str, ...],
) -> None:
    script = _PREAMBLE + _AGAINST_ONE_PROCESS.format(
        stages=stages, virtual=virtual, many=many, schedules=schedules, names=names
    )
    outcome = run(tmp_path, script, ranks=ranks)
    assert outcome.code == 0, outcome.output
    assert len(outcome.notes) == ranks
    for found in outcome.notes.values():
        assert len(found) == len(names) * len(schedules) * 2
        for what, (difference, foreign) in found.items():
            assert difference <= (1e-10 if "float64" in what else 1e-5), what
            assert foreign == 0, f"{what}: parameters of other stages are held"


_ACCUMULATED = """
found = {}
world = parallel.init(pipeline=2, microbatches=2, accumulation=3)
architecture = ARCHITECTURES["gpt, tied"]
torch.manual_seed(0)
model = architecture.make().double()
alone = copy.deepcopy(model)
every = list(batches(architecture, 6, torch.float64))
for number, batch in enumerate(every):
    (loss(alone(**batch), targets(6, torch.float64)[number]) / 6).backward()
pipeline = Pipeline(model, world, starts=("blocks.2",), example=every[0], loss=loss)
told = []
for first in (0, 2, 4):
    ids = torch.cat([each["ids"] for each in every[first : first + 2]])
    target = torch.cat(targets(6, torch.float64)[first : first + 2])
    told.append(pipeline.step(ids, target=target, is_last=first == 4).item())
reference = dict(alone.named_parameters(remove_duplicate=False))
for name, own in pipeline.module.named_parameters():
    found[name] = ((own.grad - reference[name].grad).norm() / reference[name].grad.norm()).item()
note([found, told])
parallel.leave()
"""


@pytest.mark.long
def test_accumulated_batches_are_one_of_their_size_also_for_tied_parameters(tmp_path: Path) -> None:
    outcome = run(tmp_path, _PREAMBLE + _ACCUMULATED, ranks=2)
    assert outcome.code == 0, outcome.output
    (first, told), (last, told_too) = outcome.notes[0], outcome.notes[1]
    assert told == told_too  # every rank of a replica is told the loss
    assert "tokens.weight" in first
    assert "head.weight" in last
    assert max(*first.values(), *last.values()) <= 1e-12


_REFUSED = """
class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(6)
        self.layer = torch.nn.Linear(6, 6)
    def forward(self, x):
        return self.norm(self.layer(self.norm(x)))

words = {}
def refused(name, samples=5, unfreezes=False, **changes):
    given = dict(starts=("1",), example={"input": torch.ones(4, 6)}, loss=loss)
    model = changes.pop("model", None) or ARCHITECTURES["mlp"].make()
    next(model.children()).requires_grad_(not unfreezes)
    try:
        made = Pipeline(model, world, **{**given, **changes})
        next(model.children()).requires_grad_(True)
        made.step(torch.ones(samples, 6), target=torch.ones(samples))
    except ParallelError as error:
        words[name] = str(error)

world = parallel.init(pipeline=2, microbatches=2)
refused("starts", starts=("1", "2"))
refused("schedule", schedule="1f1b")
refused("buffers", model=Twice(), starts=("layer",), example={"x": torch.ones(4, 6)})
if parallel.rank() == 0:
    refused("batch")
    refused("one microbatch", samples=4)
note(words)
refused("unfrozen", samples=8, unfreezes=True)  # rank 1 fails once rank 0 has left
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
class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        kinds = (torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.3))
        layer = torch.nn.Sequential(*kinds)
        self.layers = torch.nn.ModuleList([layer, copy.deepcopy(layer)])
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
reference = alone.state_dict()
worst = max(
    (value.double() - reference[name].double()).norm().item()
    for name, value in pipeline.module.state_dict().items()
)
note([losses, worst])
parallel.leave()
"""


@pytest.mark.long
def test_training_continues_after_an_evaluation_as_in_one_process(tmp_path: Path) -> None:
    outcome = run(tmp_path, _PREAMBLE + _EVALUATED, ranks=2)
    assert outcome.code == 0, outcome.output
    for losses, worst in outcome.notes.values():
        assert worst <= 1e-10
        assert losses[2] != losses[3]
        for own, theirs in losses:
            assert own == pytest.approx(theirs, rel=1e-6)

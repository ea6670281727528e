"""Stages that are sharded over their replicas learn what one process does."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted

pytest.importorskip("torch")

from llama_shaped import Sizes, write_checkpoint

_PREAMBLE = """
from dataclasses import replace
from learning import (
    Course, Learned, furthest, in_one_process, norms_apart, state_of, whole
)
from llama_shaped import LlamaShaped, Sizes
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy, dropout
from torch.utils._python_dispatch import TorchDispatchMode
from launcher.parallel import sharding
from launcher.parallel.context import shard_mesh
from launcher.shared.parallel_dims import ParallelDims
from launcher.shared.rank_memory import StageState

STEPS, MANY, ACCUMULATED, CLIP = 5, 2, 2, 0.05
MODELS = {
    "llama": (lambda: LlamaShaped(Sizes(dtype="float64")), "input_ids", "model.layers"),
    "llama, tied": (
        lambda: LlamaShaped(Sizes(dtype="float64", tied=True)), "input_ids", "model.layers"
    ),
    "gpt": (lambda: gpt(), "ids", "blocks"),
    "scaled": (lambda: Scaled().double(), "ids", "layers"),
    "gpt, tied, dropout": (lambda: gpt(tied=True, dropout=0.2), "ids", "blocks"),
}

class Scaled(torch.nn.Module):
    '''Its own code reads a parameter in both stages, of which one of two ranks has no share.

    It also depends on the mode, so each stage has a graph for each.
    '''

    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(19, 8)
        self.scale = torch.nn.Parameter(torch.full((1,), 1.5))
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(4)])
        self.head = torch.nn.Linear(8, 19)

    def forward(self, ids):
        x = dropout(self.tokens(ids) * self.scale, 0.1, self.training)
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x * self.scale).view(-1, 19)

def gpt(**settings):
    model = Gpt(**settings).double()
    model.norm.bias.requires_grad_(False)
    model.unused = torch.nn.Linear(3, 3).double()
    return model

def seen_with(joined, **degrees):
    '''The ranks that have met, with other degrees.'''
    found = ParallelDims(
        world=joined.degrees.world, microbatches=MANY, accumulation=ACCUMULATED, **degrees
    )
    mesh = DeviceMesh("cpu", found.grid, mesh_dim_names=("dp", "pp"))
    device = torch.device("cpu")
    return replace(joined, degrees=found, mesh=mesh, shard_mesh=shard_mesh(device, found))

def starts_of(layers, stages):
    '''The one of two stages begins inside a block.'''
    inside = {"blocks": ".second", "model.layers": ".mlp"}.get(layers, "")
    if stages == 4:
        return tuple(f"{layers}.{number}" for number in (1, 2, 3))
    return () if stages == 1 else (layers + ".2" + inside,)

def own(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor

def lessons_of(name, replicas):
    torch.manual_seed(0)
    make, argument, layers = MODELS[name]
    draw = torch.Generator().manual_seed(3)
    count = STEPS * replicas * ACCUMULATED * MANY
    data = [torch.randint(0, 19, (2, 9), generator=draw) for _ in range(count)]
    return make(), layers, Course(
        given=[{argument: ids[:, :-1]} for ids in data],
        targets=[ids[:, 1:] for ids in data],
        loss=loss, replicas=replicas, batches=ACCUMULATED, microbatches=MANY, clip=CLIP,
    )

def loss(output, target):
    return cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))

def alone_on(name, replicas):
    model, _, lessons = lessons_of(name, replicas)
    return lessons, in_one_process(lessons, model, torch.optim.AdamW(model.parameters(), lr=0.01))

def on_ranks(name, world, schedule):
    model, layers, lessons = lessons_of(name, world.degrees.data)
    losses, norms = [], []
    def recorded(output, target):
        losses.append((value := loss(output, target)).item())
        return value
    pipeline = Pipeline(
        model, world, starts=starts_of(layers, world.degrees.stages), example=lessons.given[0],
        loss=recorded, schedule=schedule,
    )
    optimizer = torch.optim.AdamW(pipeline.parameters(), lr=0.01)
    for step in lessons.steps:
        optimizer.zero_grad()
        for part in range(ACCUMULATED):
            given, target = lessons.batch(step, world.dp_rank, part)
            pipeline.step(*given.values(), target=target, is_last=part == ACCUMULATED - 1)
        norms.append(pipeline.clip(CLIP).item())
        optimizer.step()
    return Learned(model=pipeline, optimizer=optimizer, losses=losses, norms=norms)

def evaluated(lessons, pipeline, alone):
    given, target = lessons.batch(0, 0)
    pipeline.train(False)
    with torch.no_grad():
        theirs = loss(alone.eval()(**given), target).item()
    return [pipeline.evaluate(*given.values(), target=target).item(), theirs]
"""

_AGAINST_ONE_PROCESS = """
def differences(name, world, schedule):
    lessons, expected = alone_on(name, world.degrees.data)
    found = on_ranks(name, world, schedule)
    pipeline, reference = found.model, state_of(expected.model)
    worst = [norms_apart(found.norms, expected.norms)]
    if pipeline.is_last:
        parts = itertools.product(lessons.steps, range(ACCUMULATED))
        places = [lessons.part(step, world.dp_rank, part) for step, part in parts]
        worst.append(norms_apart(found.losses, sum((expected.losses[p] for p in places), [])))
    for key, parameter in pipeline.module.named_parameters():
        assert (parameter.grad is None) == (reference[key].grad is None), key
    worst.append(furthest(pipeline.module.named_parameters(), reference))
    ours, theirs = evaluated(lessons, pipeline, expected.model)
    assert abs(ours - theirs) <= 1e-6 * theirs  # a pipeline returns a float32
    own_parameters = sum(own(each).numel() for each in pipeline.parameters())
    all_parameters = sum(each.numel() for each in pipeline.parameters())
    states = [own(each) for state in found.optimizer.state.values() for each in state.values()]
    return {
        "worst": max(worst),
        "held": own_parameters / all_parameters,
        "states": sum(each.numel() for each in states) / all_parameters,
    }

joined, found = parallel.init(), {}
for name, pipeline, virtual, shards, schedule in CASES:
    world = seen_with(joined, pipeline=pipeline, virtual_stages=virtual, shard_degree=shards)
    found[f"{name}, {pipeline} x {virtual} stages, {shards} shards, {schedule}"] = differences(
        name, world, schedule
    )
note(found)
"""

#: Model, pipeline ranks, stages on each, shard degree, schedule. Of four ranks.
_CASES = [
    ("llama", 2, 1, 2, "interleaved"),
    ("scaled", 2, 1, 2, "interleaved"),
    ("gpt, tied, dropout", 2, 1, 2, "simple"),
    ("llama, tied", 2, 1, 2, "zero_bubble"),
    ("gpt, tied, dropout", 1, 1, 2, "interleaved"),
]
_MORE_CASES = [
    ("llama", 1, 1, 4, "simple"),
    ("gpt", 2, 2, 2, "interleaved"),
    ("llama, tied", 2, 2, 2, "zero_bubble"),
]


def check(folder: Path, cases: list[tuple[str, int, int, int, str]], ranks: int) -> None:
    script = f"{_PREAMBLE}\nCASES = {cases!r}\n{_AGAINST_ONE_PROCESS}"
    for notes in noted(folder, script, ranks=ranks):
        assert len(notes) == len(cases)
        for (_, _, _, shards, _), (case, found) in zip(cases, notes.items(), strict=True):
            assert found["worst"] <= 1e-9, case
            # The rows of small parameters cannot be divided equally.
            assert found["held"] < 1.2 / shards, case
            assert found["states"] < 2.4 / shards, case


@pytest.mark.long
def test_sharded_stages_learn_what_one_process_does(tmp_path: Path) -> None:
    check(tmp_path, _CASES, ranks=4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_more_degrees_do(tmp_path: Path) -> None:
    check(tmp_path, _MORE_CASES, ranks=4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_sets_of_shards_of_two_stages_do(tmp_path: Path) -> None:
    every = (*_CASES, *_MORE_CASES)
    cases = [(name, 2, virtual, 2, schedule) for name, _, virtual, _, schedule in every]
    check(tmp_path, list(dict.fromkeys(cases)), ranks=8)


_ONE_BY_ONE = """
world = parallel.init(shard_degree=2, microbatches=MANY, accumulation=ACCUMULATED)
name = "gpt, tied, dropout"
lessons, expected = alone_on(name, 2)
found = on_ranks(name, world, "interleaved")
pipeline, optimizer = found.model, found.optimizer

class Reductions(TorchDispatchMode):
    count = 0
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += "reduce_scatter" in str(function)
        return function(*args, **(kwargs or {}))

def gathered():
    named = pipeline.module.named_parameters()
    return [key for key, each in named if not isinstance(each, DTensor)]

def in_blocks(*_):
    seen.append({key.split(".")[1] for key in gathered() if key.startswith("blocks.")})
    named = dict(pipeline.module.named_parameters())
    at_once.append(sum(named[key].nbytes for key in gathered()))

seen, at_once = [], []
for block in range(4):
    pipeline.module.get_submodule(f"blocks.{block}.feed").register_forward_pre_hook(in_blocks)
given, target = lessons.batch(0, parallel.dp_rank())
reductions = []
for is_last in (False, True):
    with Reductions() as counted:
        pipeline.step(*given.values(), target=target, is_last=is_last)
    reductions.append(counted.count)
after_step = gathered()
alone = expected.model
values = evaluated(lessons, pipeline, alone)

def size(parameters):
    return sum(own(each).nbytes for each in parameters)

of_blocks = [size(each.parameters()) for each in sharding.blocks(alone)]
trained = size(each for each in alone.parameters() if each.requires_grad)
stage = StageState(
    parameters=size(alone.parameters()), gradients=trained, states=2 * trained,
    largest=max(of_blocks), rest=size(alone.parameters()) - sum(of_blocks),
)
predicted = stage.on_rank(2)
moments = [each for state in optimizer.state.values() for each in state.values() if each.ndim]
unused = 2 * size(alone.unused.parameters())  # without gradients there are no moments
memory = [
    [size(pipeline.parameters()) + max(at_once), predicted.parameters - stage.largest],
    [size(moments), predicted.states - unused // 2],
]
note([list(map(sorted, seen)), reductions, after_step + gathered(), values, memory])
"""


@pytest.mark.long
def test_one_block_is_gathered_at_a_time_and_gradients_are_reduced_once(tmp_path: Path) -> None:
    for seen, reductions, left, (evaluated, theirs), memory in noted(
        tmp_path, _PREAMBLE + _ONE_BY_ONE
    ):
        for found, predicted in memory:  # on a CPU no block is fetched early
            assert found == pytest.approx(predicted, rel=0.1)
        assert seen == [[str(block)] for block in range(4)] * 6  # microbatches
        assert reductions == [0, 5]  # four blocks, and what is in none
        assert left == []
        assert evaluated == pytest.approx(theirs, rel=1e-6)


_REFUSED = """
class Scaled(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        self.scale = torch.nn.Parameter(scale)
    def forward(self, x):
        return self.layer(x) * self.scale

def made(scale):
    example = {"x": torch.ones(2, 6)}
    return Pipeline(Scaled(scale), world, example=example, loss=lambda y, _: y.mean(), starts=())

class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(6, 6)])
    def forward(self, x):
        return self.blocks[0](x)

def step_without_reducing():
    '''As with versions of torch that reduce only what the last backward pass has gathered.'''
    reduces = FSDPModule.set_requires_gradient_sync
    FSDPModule.set_requires_gradient_sync = lambda self, is_on: reduces(self, False)
    pipeline = Pipeline(
        Blocks(), world, example={"x": torch.ones(2, 6)}, loss=lambda y, _: y.mean(), starts=()
    )
    pipeline.step(torch.ones(2 * MANY, 6), target=torch.ones(2 * MANY))

world, words = parallel.init(shard_degree=2, microbatches=MANY), []
for scale in (torch.ones(()), torch.ones(1).double(), torch.ones(1)):
    words.append(refused(lambda: made(scale).expect(torch.ones(3, 6))))
note([*words, refused(step_without_reducing)])
"""


@pytest.mark.long
def test_what_cannot_be_sharded_is_refused(tmp_path: Path) -> None:
    number, dtypes, shapes, unreduced = noted(tmp_path, _PREAMBLE + _REFUSED)[0]
    assert "scale is a single number, which FSDP2 cannot shard: give it the shape [1]" in number
    assert "scale is torch.float64 and layer.weight is torch.float32, but FSDP2" in dtypes
    assert "does not reduce gradients that were added up before: use torch 2.13" in unreduced
    assert "a pipeline with a shard_degree has only those of its example, (2, 6)" in shapes


_WITH_WEIGHTS = """
from launcher.parallel.pretrained import PretrainedWeights, without_weights

world, folder = parallel.init(shard_degree=2, microbatches=MANY), os.environ["WEIGHTS"]
with without_weights():
    model, alone = LlamaShaped(Sizes()), LlamaShaped(Sizes())
PretrainedWeights(folder).load(alone, alone, world.device)
ids = torch.zeros(2 * MANY, 8, dtype=torch.long)
pipeline = Pipeline(
    model, world, starts=(), example={"input_ids": ids[:2]}, weights=folder,
    loss=lambda output, target: output.square().mean(),
)
read = all(
    torch.equal(whole(each), dict(alone.named_parameters())[key])
    for key, each in pipeline.module.named_parameters()
)
loss = pipeline.step(ids, target=ids).item()
note([read, loss, alone(ids).square().mean().item()])
"""


@pytest.mark.long
def test_weights_are_read_and_then_sharded(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "weights", Sizes(), shard=10**4, seed=5)
    weights = str(tmp_path / "weights")
    for read, loss, theirs in noted(tmp_path, _PREAMBLE + _WITH_WEIGHTS, WEIGHTS=weights):
        assert read
        assert loss == pytest.approx(theirs, rel=1e-5)


_IN_EVAL_MODE = """
world = parallel.init(shard_degree=2, microbatches=MANY)
torch.manual_seed(0)
model, ids = Scaled().eval(), torch.zeros(2 * MANY, 8, dtype=torch.long)
alone = model(ids).square().mean().item()
pipeline = Pipeline(
    model, world, starts=(), example={"ids": ids[:2]},
    loss=lambda output, target: output.square().mean(),
)
note([pipeline.evaluate(ids, target=ids).item(), alone])
"""


@pytest.mark.long
def test_a_model_in_eval_mode_is_sharded_in_eval_mode(tmp_path: Path) -> None:
    found, alone = noted(tmp_path, _PREAMBLE + _IN_EVAL_MODE)[0]
    assert found == pytest.approx(alone)

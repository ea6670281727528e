"""Replicas of every architecture, whole or sharded, learn what one process learns."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted

torch = pytest.importorskip("torch")

from architectures import ARCHITECTURES  # noqa: E402 - they need torch

from launcher import parallel  # noqa: E402
from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import shard  # noqa: E402

_PREAMBLE = """
from learning import Course, furthest, in_one_process, norms_apart, whole

def loss(output, target):
    floats = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in floats)

def course(architecture, dtype, replicas):
    '''Five steps of two batches, which each replica accumulates.'''
    generator = torch.Generator().manual_seed(7)
    every = [architecture.arguments(generator) for _ in range(5 * replicas * 2)]
    return Course(
        given=[{k: v if k == "ids" else v.to(dtype) for k, v in each.items()} for each in every],
        targets=[torch.ones(1)] * len(every),
        loss=loss, replicas=replicas, microbatches=2, clip=0.05,
    )

def on_ranks(lessons, model, module, optimizer, drawing, clip_to):
    randomness, norms = Randomness(module, drawing), []
    for step in lessons.steps:
        optimizer.zero_grad()
        for number, given in enumerate(lessons.given[lessons.part(step, parallel.rank(), 0)]):
            randomness.set_position(step=step, replica=parallel.rank(), microbatch=number)
            with accumulating(model, is_last=number == 1):
                (loss(model(**given), None) / 2).backward()
        norms.append(clip_to(model.parameters(), lessons.clip).item())
        optimizer.step()
    return norms
"""

_AGAINST_ONE_PROCESS = """
WAYS = {
    "sharded": lambda model: shard(model, world),
    "whole": lambda model: replicate(model, world, find_unused_parameters=True),
}
world, found = parallel.init(**DEGREES), {}
for name in NAMES:
    architecture = ARCHITECTURES[name]
    for dtype, make in (
        (torch.float64, lambda p: torch.optim.AdamW(p, lr=0.01)),
        (torch.float32, lambda p: torch.optim.SGD(p, lr=0.05)),
    ):
        torch.manual_seed(0)
        alone = architecture.make().to(dtype)
        lessons = course(architecture, dtype, parallel.size())
        drawing = cut(alone, (), lessons.given[0])[0].drawing
        copies = {way: copy.deepcopy(alone) for way in WAYS}
        norms = in_one_process(lessons, alone, make(alone.parameters())).norms
        for way, prepare in WAYS.items():
            module = copies[way]
            model = prepare(module)
            held = [p.to_local() if way == "sharded" else p for p in module.parameters()]
            ours = on_ranks(
                lessons, model, module, make(module.parameters()), drawing,
                lambda parameters, norm: clip(parameters, norm, world),
            )
            worst = furthest(module.named_parameters(), dict(alone.named_parameters()))
            total = sum(p.numel() for p in alone.parameters())
            found[f"{name}, {way}, {dtype}"] = [
                max(worst, norms_apart(ours, norms)), sum(p.numel() for p in held) / total
            ]
note(found)
"""


_MANY = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "ranks", "degrees"),
    [
        pytest.param(["gpt, tied", "frozen and unused"], 2, {}, id="shards"),
        pytest.param(["frozen and unused"], 4, {"shard_degree": 2}, id="two sets of shards"),
        *(
            pytest.param(list(ARCHITECTURES)[n::5], 2, {}, id=f"all, {n}", marks=_MANY)
            for n in range(5)
        ),
    ],
)
def test_replicas_and_shards_learn_what_one_process_does(
    tmp_path: Path, names: list[str], ranks: int, degrees: dict[str, int]
) -> None:
    given = f"DEGREES, NAMES = {degrees}, {names}\n"
    for found in noted(tmp_path, given + _PREAMBLE + _AGAINST_ONE_PROCESS, ranks=ranks):
        assert len(found) == len(names) * 4
        for what, (difference, share) in found.items():
            assert difference <= (1e-10 if "float64" in what else 1e-5), what
            # Small parameters cannot be halved.
            assert share == 1 if "whole" in what else share < 0.7, what


_COMPRESSED = """
mlp = lambda: nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 11))
world, found = parallel.init(), {}
batches = [torch.randn(4, 6, generator=torch.Generator().manual_seed(n)) for n in range(2)]
for name in (None, "fp16", "power_sgd"):
    torch.manual_seed(0)
    alone = mlp()
    together = replicate(copy.deepcopy(alone), world, compression=name)
    (sum(alone(each).square().mean() for each in batches) / 2).backward()
    together(batches[parallel.rank()]).square().mean().backward()
    own = [p.grad.tolist() for p in together.parameters()]
    everyone = [None] * parallel.size()
    dist.all_gather_object(everyone, own)
    assert all(each == everyone[0] for each in everyone), name
    reference = {f"module.{key}": p.grad for key, p in alone.named_parameters()}
    found[str(name)] = furthest(((k, p.grad) for k, p in together.named_parameters()), reference)
note([found, [refused(replicate, mlp(), world, compression=n) for n in ("bf16", "int8", "fp8")]])
"""


@pytest.mark.long
def test_compressed_gradients_are_nearly_the_same_and_alike_on_all_ranks(tmp_path: Path) -> None:
    for found, (bf16, int8, fp8) in noted(tmp_path, _PREAMBLE + _COMPRESSED):
        assert found["None"] < 1e-6
        assert 1e-6 < found["fp16"] < 1e-3
        assert found["power_sgd"] < 1e-6  # it begins with gradients as they are
        assert "'bf16' needs nccl or xccl, but this job communicates over gloo" in bf16
        assert "compression 'int8' needs nccl or xccl" in int8
        assert "be compressed as 'fp8': use one of bf16, fp16, int8, power_sgd" in fp8


def test_stages_are_not_sharded(tmp_path: Path) -> None:
    script = "note(refused(shard, nn.Linear(2, 2), parallel.init(pipeline=2)))"
    (words, _) = noted(tmp_path, script)
    assert "a model in 2 pipeline stages cannot be sharded as a whole: use" in words


def test_shards_have_the_attributes_of_their_parameters_and_no_hooks() -> None:
    """As models with state spaces set them for optimizers."""
    world = parallel.init()
    try:
        model = torch.nn.Linear(2, 2)
        model.bias._no_weight_decay = True
        shard(model, world)
        assert model.bias._no_weight_decay
        assert not hasattr(model.weight, "_no_weight_decay")
        hooked = torch.nn.Linear(2, 2)
        hooked.bias.register_hook(lambda gradient: gradient * 0)
        with pytest.raises(ParallelError, match="bias has a hook for its gradient"):
            shard(hooked, world)
    finally:
        parallel.leave()

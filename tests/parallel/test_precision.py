"""Mixed precision: the same rounding as in one process, and steps that all ranks skip."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted

pytest.importorskip("torch")

_PREAMBLE = """

def loss(output, target):
    return torch.nn.functional.cross_entropy(output, target.reshape(-1))

generator = torch.Generator().manual_seed(3)
ids, labels = (torch.randint(0, 19, (4, 9), generator=generator) for _ in range(2))
torch.manual_seed(0)
model = Gpt()
alone = copy.deepcopy(model)
world = parallel.init(pipeline=2, microbatches=2)
"""

_AUTOCAST = """
pipeline = Pipeline(
    model, world, starts=("blocks.2",), example={"ids": ids[:2]}, loss=loss, precision="bf16"
)
own = torch.optim.SGD(pipeline.parameters(), lr=0.1)
theirs = torch.optim.SGD(alone.parameters(), lr=0.1)
losses = []
for step in range(5):
    own.zero_grad()
    told = pipeline.step(ids, target=labels)
    own.step()
    theirs.zero_grad()
    halves = []
    for some, wanted in zip(ids.split(2), labels.split(2)):
        with torch.autocast("cpu", torch.bfloat16):
            halves.append(loss(alone(some), wanted) / 2)
        halves[-1].backward()
    theirs.step()
    losses.append([told.item(), sum(halves).item()])
reference = dict(alone.named_parameters())
worst = max(
    ((value - reference[name]).norm() / reference[name].norm()).item()
    for name, value in pipeline.module.named_parameters()
)
exact = Pipeline(
    copy.deepcopy(alone), world, starts=("blocks.2",), example={"ids": ids[:2]}, loss=loss
)
note([worst, losses, exact.evaluate(ids, target=labels).item(),
      pipeline.evaluate(ids, target=labels).item()])
"""


@pytest.mark.long
def test_a_pipeline_rounds_as_one_process_does(tmp_path: Path) -> None:
    for worst, losses, exact, rounded in noted(tmp_path, _PREAMBLE + _AUTOCAST):
        assert worst <= 1e-6
        for own, theirs in losses:
            assert own == pytest.approx(theirs, rel=1e-6)
        assert rounded != exact  # it was 16 bits
        assert rounded == pytest.approx(exact, rel=0.02)


_SKIPPED = """
pipeline = Pipeline(model, world, starts=("blocks.2",), example={"ids": ids[:2]}, loss=loss)
optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
scale = scaler(world, init_scale=1024.0, growth_interval=3)
told, norms = [], []
for step in range(6):
    before = [p.clone() for p in pipeline.parameters()]
    optimizer.zero_grad()
    loss_of_step = pipeline.step(ids, target=labels, scaler=scale).item()
    if step == FORCED[0] and parallel.rank() == FORCED[1]:
        pipeline.parameters()[0].grad[0] = float("inf")
    scale.unscale_(optimizer)
    norms.append(pipeline.clip(1e9).item())
    scale.step(optimizer)
    scale.update()
    moved = any(not torch.equal(a, b) for a, b in zip(before, pipeline.parameters()))
    told.append([moved, scale.get_scale(), loss_of_step])
note([told, norms])
"""


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_an_infinite_gradient_in_one_stage_skips_the_step_in_all(tmp_path: Path, rank: int) -> None:
    script = f"FORCED = (2, {rank})" + _PREAMBLE + _SKIPPED
    (told, norms), (told_too, norms_too) = noted(tmp_path, script)
    assert told == told_too
    assert [moved for moved, _, _ in told] == [True, True, False, True, True, True]
    assert [scale for _, scale, _ in told] == [1024, 1024, 512, 512, 512, 1024]
    assert norms == norms_too
    assert norms[0] < 100  # they were scaled down again
    assert told[0][2] == pytest.approx(3, rel=0.2)  # as was the loss: ln 19


_FUSED = """

world = parallel.init()
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.AdamW([weight], lr=0.5, fused=True)
scale = scaler(world, init_scale=8.0)
told = []
for largest in (8.0, float("inf")):
    weight.grad = torch.full((3,), largest if parallel.rank() else 8.0)
    if CLIPS:
        scale.unscale_(optimizer)
    scale.step(optimizer)
    scale.update()
    told.append([weight[0].item(), scale.get_scale()])
note(told)
"""


@pytest.mark.long
@pytest.mark.parametrize("clips", [True, False], ids=["unscaled before", "in the step"])
def test_an_infinite_gradient_of_one_rank_skips_the_step_of_fused_optimizers(
    tmp_path: Path, clips: bool
) -> None:
    after_one_step = pytest.approx(0.495, rel=1e-6)
    found = noted(tmp_path, _FUSED.replace("CLIPS", str(clips)))
    assert found == [[[after_one_step, 8], [after_one_step, 4]]] * 2


_SAVED = """
import contextlib
from launcher.parallel.recomputation import recompute

def saved_bytes(work):
    '''Of what autograd keeps for the backward pass of some work.'''
    kept = {}
    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = work()
    return sum(kept.values()), result

torch.manual_seed(0)
model = Gpt(dropout=0.3)
plain, again = copy.deepcopy(model), model
recompute(again, ["blocks"])
found = []
for each in (plain, copy.deepcopy(again)):
    torch.manual_seed(5)
    size, output = saved_bytes(lambda: each(ids))
    loss(output, labels).backward()
    found.append([size, [p.grad.tolist() for p in each.parameters()]])
same = found[0][1] == found[1][1]

again.zero_grad()
alone = copy.deepcopy(again)
randomness = Randomness(alone, cut(alone, (), {"ids": ids[:2]})[0].drawing)
for number, (some, wanted) in enumerate(zip(ids.split(2), labels.split(2))):
    randomness.set_position(step=0, replica=0, microbatch=number)
    (loss(alone(some), wanted) / 2).backward()
pipeline = Pipeline(again, world, starts=("blocks.2",), example={"ids": ids[:2]}, loss=loss)
pipeline.step(ids, target=labels)
reference = dict(alone.named_parameters())
parts = [
    torch.equal(p.grad, reference[name].grad) for name, p in pipeline.module.named_parameters()
]
note([found[0][0], found[1][0], same, all(parts)])
"""


@pytest.mark.long
def test_what_is_computed_again_is_the_same_and_takes_less_memory(tmp_path: Path) -> None:
    for plain, again, is_same, is_same_in_a_pipeline in noted(tmp_path, _PREAMBLE + _SAVED):
        assert again < plain / 2
        assert is_same
        assert is_same_in_a_pipeline


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["body"], "'body' is to be recomputed, but the model has no such module: it has 0, 1"),
        (["1"], r"1 cannot be recomputed, because 1\.norm would count each batch twice"),
    ],
)
def test_what_cannot_be_computed_again_is_refused(names: list[str], words: str) -> None:
    from architectures import ARCHITECTURES

    from launcher.errors import ParallelError
    from launcher.parallel import recompute

    with pytest.raises(ParallelError, match=words):
        recompute(ARCHITECTURES["resnet, batch norm"].make(), names)

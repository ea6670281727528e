"""Every public name of torch's Module, on what Launcher makes of a model: alike, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from module_uses import USES  # noqa: E402 - it needs torch
from ranks import noted  # noqa: E402
from torch import nn  # noqa: E402

_SCRIPT = """
from module_uses import USES, Net
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.functional import mse_loss

def made():
    torch.manual_seed(0)
    return Net().double()

def batch(replica):
    generator = torch.Generator().manual_seed(replica)
    return torch.rand(8, 6, generator=generator, dtype=torch.float64)
"""
_WALK = """
def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value

def outcome(use):
    try:
        return next(use)
    except Exception as error:
        return error

def alike(name):
    global other, shown
    alone = made()
    first, second = USES[name](alone), USES[name](other)
    expected, found = outcome(first), outcome(second)
    if isinstance(found, ParallelError):
        return "refused"
    if isinstance(expected, Exception) or isinstance(found, Exception):
        is_alike = type(expected) is type(found)
        return "alike" if is_alike else f"raised {found!r} instead of {expected!r}"
    for each in parameters():
        each.grad = None
    for replica in range(REPLICAS):
        for part in batch(replica).chunk(MICROBATCHES):
            loss = alone(part).square().mean() / MICROBATCHES / REPLICAS
            loss.backward()
    try:
        step()
    except ParallelError as error:
        outcome(second)
        return "refused in the step"
    reference = {key: each.grad for key, each in alone.named_parameters()}
    for key, each in named():
        want, have = reference[key.removeprefix("module.")], each.grad
        if (want is None) != (have is None):
            return f"the gradient of {key} is there, or not"
        if want is not None and not torch.allclose(want, whole(have)):
            return f"the gradient of {key} is another"
    after = outcome(first), outcome(second)
    pairs = [(expected, found), after]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    return f"{wrong[0][1]!r} instead of {wrong[0][0]!r}" if wrong else "alike"

found = {}
for kind, other in shown.items():
    for name in USES:
        if name == "compile" and kind not in ("model", "pipeline"):
            continue  # torch's own, and slow
        if kind == "pipeline" and name.endswith("parameters"):
            continue  # they are those of its stages
        if kind == "smp" and name in ("train", "eval"):
            continue  # a step in eval mode has no gradients
        found[f"{kind}.{name}"] = alike(name)
        reset()
note(found)
"""
_KINDS = {
    "pipeline": """
from launcher.parallel.pipeline import Pipeline
world = parallel.init(pipeline=2, microbatches=2)
model = made()
pipe = Pipeline(
    model, world, starts=["head"], example={"x": batch(0)[:4]}, loss=lambda y, t: y.square().mean()
)
shown, REPLICAS, MICROBATCHES = {"model": model, "pipeline": pipe}, 1, 2
parameters, named = pipe.parameters, pipe.named_parameters
def step(): pipe.step(batch(0), target=batch(0))
def reset(): pipe.train()
""",
    "smp": """
import launcher.parallel.smp as smp
smp.init(partitions=2, starts=["head"], microbatches=2)
model = smp.DistributedModel(made())
@smp.step
def train(x): model.backward(model(x).square().mean())
shown, REPLICAS, MICROBATCHES = {"smp": model}, 1, 2
parameters, named = model.local_parameters, model.local_named_parameters
def step(): train(batch(0))
def reset():
    model.train()
    model.load_state_dict(made().state_dict())
step()  # it partitions the model
reset()
""",
    "replicate": """
from launcher.parallel.gradients import replicate
world = parallel.init()
model = made()
wrapped = replicate(model, world)
shown, REPLICAS, MICROBATCHES = {"model within": model, "wrapper": wrapped}, 2, 1
parameters, named = model.parameters, model.named_parameters
def step(): wrapped(batch(world.dp_rank)).square().mean().backward()
def reset():
    wrapped.train()
    for each in (wrapped, model): each._is_full_backward_hook = None
    model.load_state_dict(made().state_dict())
""",
    "shard": """
from launcher.parallel.gradients import accumulating
from launcher.parallel.sharding import shard
world = parallel.init()
model = shard(made(), world)
shown, REPLICAS, MICROBATCHES = {"sharded": model}, 2, 1
parameters, named = model.parameters, model.named_parameters
def step():
    with accumulating(model, is_last=True):
        model(batch(world.dp_rank)).square().mean().backward()
def reset():
    model.train()
    model._is_full_backward_hook = None
    with torch.no_grad():
        for each, whole in zip(model.parameters(), made().parameters()):
            each.copy_(distribute_tensor(whole.data, each.device_mesh, each.placements))
""",
}


#: What FSDP2 refuses in its own words, and a repr with the class that it makes.
_OF_FSDP = {f"sharded.{name}" for name in ("load_state_dict", "forward", "deepcopy", "save")}
_OF_FSDP |= {"sharded.to_empty"}


def test_all_names_of_modules_are_used() -> None:
    public = {name for name in dir(nn.Module) if not name.startswith("_")}
    assert public - USES.keys() == set()


@pytest.mark.long
@pytest.mark.parametrize("kind", _KINDS)
def test_each_name_works_alike_or_is_refused(tmp_path: Path, kind: str) -> None:
    for found in noted(tmp_path, _SCRIPT + _KINDS[kind] + _WALK):
        wrong = {name: each for name, each in found.items() if each[:7] not in ("alike", "refused")}
        assert wrong.keys() == (_OF_FSDP if kind == "shard" else set()), wrong
        assert all(each[:6] == "raised" for each in wrong.values() if "FSDPNet(" not in each)


_REPLICAS = """

world = parallel.init()

def direct(model, wrapped): model(batch(world.dp_rank)).sum().backward()
def train(model, wrapped): wrapped(batch(world.dp_rank)).sum().backward()
def twice(model, wrapped):
    loss = wrapped(batch(world.dp_rank)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
def both(model, wrapped): (wrapped(batch(world.dp_rank)) + wrapped(batch(7))).sum().backward()
def accumulated(model, wrapped):
    for is_last in (False, True):
        with accumulating(wrapped, is_last=is_last): train(model, wrapped)
def unfreezes(model, wrapped):
    model.first.requires_grad_(True)
    train(model, wrapped)
def new_head(model, wrapped):
    model.head = nn.Linear(6, 1).double()
    train(model, wrapped)
def new_head_then_accumulated(model, wrapped):
    model.head = nn.Linear(6, 1).double()
    accumulated(model, wrapped)
def halves(model, wrapped):
    model.half().double()
    train(model, wrapped)
def steps(model, wrapped): OPTIMIZERS[-1].step()

def exchanged(wrap, use, frozen=False):
    model = made()
    model.first.requires_grad_(not frozen)
    OPTIMIZERS.append(torch.optim.SGD(model.parameters(), 0.1))
    wrapped = wrap(model)
    try:
        train(model, wrapped)
        use(model, wrapped)
    except ParallelError as error:
        return str(error)
    gradients = torch.cat([whole(each.grad).flatten() for each in model.parameters()])
    every = [torch.empty_like(gradients) for _ in range(2)]
    dist.all_gather(every, gradients)
    return torch.equal(*every)

def whole(value): return value.full_tensor() if isinstance(value, DTensor) else value
def replicated(model): return replicate(model, world)
def sharded(model): return shard(model, world)
OPTIMIZERS = []
note({
    "train": exchanged(replicated, train),
    "both": exchanged(replicated, both),
    "accumulated": exchanged(replicated, accumulated),
    "direct": exchanged(replicated, direct),
    "twice": exchanged(replicated, twice),
    "unfreezes": exchanged(replicated, unfreezes, frozen=True),
    "new head": exchanged(replicated, new_head),
    "halves": exchanged(replicated, halves),
    "sharded": exchanged(sharded, accumulated),
    "new head, sharded": exchanged(sharded, new_head_then_accumulated),
    "old optimizer": exchanged(sharded, steps),
})
"""


def test_replicas_exchange_every_gradient_or_say_which_not(tmp_path: Path) -> None:
    for found in noted(tmp_path, _SCRIPT + _REPLICAS):
        for habit in ("train", "both", "accumulated", "sharded"):
            assert found.pop(habit) is True
        wordings = {
            "direct": "call what replicate() has returned, not the model itself",
            "twice": "run one backward pass for each call",
            "unfreezes": "first.weight was added, unfrozen or converted after replicate()",
            "new head": "head.weight was added, unfrozen or converted after replicate()",
            "halves": "the model was converted or moved after replicate()",
            "new head, sharded": "head.weight was added after shard()",
            "old optimizer": "first.weight was replaced by this rank's share of it in shard()",
        }
        assert found.keys() == wordings.keys()
        assert [name for name, words in wordings.items() if words not in str(found[name])] == []

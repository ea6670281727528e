"""Replicas of every architecture, whole or sharded, learn what one process learns."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run

torch = pytest.importorskip("torch")

from architectures import ARCHITECTURES  # noqa: E402 - they need torch

from launcher import parallel  # noqa: E402
from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import shard  # noqa: E402

_SCRIPT = f"""
import copy
sys.path.append({str(Path(__file__).parent)!r})
from architectures import ARCHITECTURES
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves
from launcher.parallel.gradients import accumulating, clip, replicate
from launcher.parallel.randomness import Randomness
from launcher.parallel.sharding import shard
from launcher.parallel.stages import cut
from launcher.errors import ParallelError

STEPS, BATCHES, CLIP = 5, 2, 0.05

def loss(output):
    floats = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in floats)

def batch(architecture, step, number, replica, dtype):
    generator = torch.Generator().manual_seed(100 * step + 10 * number + replica)
    found = architecture.arguments(generator)
    return {{k: v if k == "ids" else v.to(dtype) for k, v in found.items()}}

def train(model, module, architecture, optimizer, replicas, dtype, clip_to):
    randomness = Randomness(module, drawing)
    norms = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(BATCHES):
            with accumulating(model, is_last=number == BATCHES - 1):
                for replica in replicas:
                    randomness.set_position(step=step, replica=replica, microbatch=number)
                    given = batch(architecture, step, number, replica, dtype)
                    (loss(model(**given)) / BATCHES / len(replicas)).backward()
        norms.append(clip_to(model.parameters(), CLIP).item())
        optimizer.step()
    assert max(norms) > CLIP, norms
    return norms

def full(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

WAYS = {{
    "sharded": lambda model: shard(model, world),
    "whole": lambda model: replicate(model, world, find_unused_parameters=True),
}}
world = parallel.init(**DEGREES)
found = {{}}
"""

_AGAINST_ONE_PROCESS = """
for name in NAMES:
    architecture = ARCHITECTURES[name]
    for dtype, make in (
        (torch.float64, lambda p: torch.optim.AdamW(p, lr=0.01)),
        (torch.float32, lambda p: torch.optim.SGD(p, lr=0.05)),
    ):
        torch.manual_seed(0)
        alone = architecture.make().to(dtype)
        drawing = cut(alone, (), batch(architecture, 0, 0, 0, dtype))[0].drawing
        copies = {way: copy.deepcopy(alone) for way in WAYS}
        plain = torch.nn.utils.clip_grad_norm_
        optimizer = make(alone.parameters())
        replicas = range(parallel.size())
        norms = train(alone, alone, architecture, optimizer, replicas, dtype, plain)
        for way, prepare in WAYS.items():
            module = copies[way]
            model = prepare(module)
            held = sum((p.to_local() if isinstance(p, DTensor) else p).numel()
                       for p in module.parameters())
            clip_to = lambda parameters, norm: clip(parameters, norm, world)
            mine, optimizer = [parallel.rank()], make(module.parameters())
            own = train(model, module, architecture, optimizer, mine, dtype, clip_to)
            worst = max(abs(a - b) / a for a, b in zip(norms, own))
            for a, b in zip(alone.parameters(), module.parameters(), strict=True):
                difference = (full(b) - a).norm() / a.norm().clamp_min(1e-9)
                worst = max(worst, difference.item())
            total = sum(p.numel() for p in alone.parameters())
            found[f"{name}, {way}, {dtype}"] = [worst, held / total]
note(found)
parallel.leave()
"""


def check(tmp_path: Path, names: list[str], count: int, ranks: int = 2, **degrees: int) -> None:
    given = f"DEGREES, NAMES = {degrees}, {names}\n"
    outcome = run(tmp_path, given + _SCRIPT + _AGAINST_ONE_PROCESS, ranks=ranks)
    assert outcome.code == 0, outcome.output
    for found in outcome.notes.values():
        assert len(found) == count * 4
        for what, (difference, share) in found.items():
            assert difference <= (1e-10 if "float64" in what else 1e-5), what
            if "whole" in what:
                assert share == 1
            else:
                assert share < 0.7, what  # small parameters cannot be halved


@pytest.mark.long
def test_replicas_and_shards_learn_what_one_process_does(tmp_path: Path) -> None:
    check(tmp_path, ["gpt, tied", "frozen and unused"], 2)


@pytest.mark.long
def test_so_do_two_sets_of_shards(tmp_path: Path) -> None:
    check(tmp_path, ["frozen and unused"], 1, ranks=4, shard_degree=2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(5))
def test_all_architectures_do(tmp_path: Path, part: int) -> None:
    check(tmp_path, list(ARCHITECTURES)[part::5], 3)


def test_stages_are_not_sharded(tmp_path: Path) -> None:
    script = """
from launcher.parallel.sharding import shard
from launcher.errors import ParallelError
world = parallel.init(pipeline=2)
try:
    shard(torch.nn.Linear(2, 2), world)
except ParallelError as error:
    note(str(error))
parallel.leave()
"""
    outcome = run(tmp_path, script, ranks=2)
    assert "a model in 2 pipeline stages cannot be sharded as a whole: use" in outcome.notes[0]


def test_shards_have_the_attributes_of_their_parameters() -> None:
    """As models with state spaces set them for optimizers."""
    world = parallel.init()
    try:
        model = torch.nn.Linear(2, 2)
        model.bias._no_weight_decay = True
        shard(model, world)
        assert model.bias._no_weight_decay
        assert not hasattr(model.weight, "_no_weight_decay")
    finally:
        parallel.leave()


def test_hooks_of_gradients_are_not_sharded() -> None:
    world = parallel.init()
    try:
        model = torch.nn.Linear(2, 2)
        model.bias.register_hook(lambda gradient: gradient * 0)
        with pytest.raises(ParallelError, match="bias has a hook for its gradient"):
            shard(model, world)
    finally:
        parallel.leave()

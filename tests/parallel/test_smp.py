"""Scripts for smp learn in a pipeline what one process learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ranks import Outcome, run

pytest.importorskip("torch")

_TESTS = Path(__file__).parent
_PREAMBLE = f"""
import copy, itertools
sys.path.append({str(_TESTS)!r})
from architectures import ARCHITECTURES
import launcher.parallel.smp as smp
from launcher.parallel.randomness import Randomness
from launcher.parallel.stages import cut
from launcher.errors import ParallelError

STEPS, CLIP, MANY = 5, 0.05, 2

def cost(output, factor):
    return output.sin().mean() * factor.mean()

def batches(architecture, count):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        found = architecture.arguments(generator)
        yield {{k: v if k == "ids" else v.double() for k, v in found.items()}}

def factor(number):
    return torch.full((4,), 1.0 + number / 7, dtype=torch.float64)

def worst(own, theirs):
    assert own.keys() == theirs.keys(), own.keys() ^ theirs.keys()
    return max(
        ((own[k].double() - theirs[k].double()).norm()
         / theirs[k].double().norm().clamp_min(1e-9)).item()
        for k in own
    )
"""

_AGAINST_ONE_PROCESS = """
smp.init(microbatches=MANY, **{config})
architecture = ARCHITECTURES[{name!r}]
replicas = smp.dp_size()
torch.manual_seed(3)
net = architecture.make().double()
alone = copy.deepcopy(net)
every = list(batches(architecture, STEPS * MANY * replicas))

randomness = Randomness(alone, cut(alone, (), every[0])[0].drawing, seed=3)
optimizer = torch.optim.AdamW(alone.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
losses, norms = [], []
for step in range(STEPS):
    optimizer.zero_grad()
    losses.append([])
    for number in range(MANY * replicas):
        at = step * MANY * replicas + number
        replica, microbatch = divmod(number, MANY)
        randomness.at(step=step, replica=replica, microbatch=microbatch)
        loss = cost(alone(**every[at]), factor(at))
        (loss / MANY / replicas).backward()
        losses[-1].append(loss.item())
    norms.append(torch.nn.utils.clip_grad_norm_(alone.parameters(), CLIP).item())
    optimizer.step()
    scheduler.step()
assert min(norms) > CLIP, norms
reference = optimizer

optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
model = smp.DistributedModel(net)
optimizer = smp.DistributedOptimizer(optimizer)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

@smp.step
def train_step(model, inputs, factor):
    first, *others = inputs.values()
    output = model(first, **dict(list(inputs.items())[1:]))
    loss = cost(output, factor)
    model.backward(loss)
    return {{"loss": loss, "output": output}}

told = []
model.train()
for step in range(STEPS):
    optimizer.zero_grad()
    first = step * MANY * replicas + smp.dp_rank() * MANY
    mine = every[first : first + MANY]
    inputs = {{key: torch.cat([each[key] for each in mine]) for key in mine[0]}}
    factors = torch.cat([factor(first + number) for number in range(MANY)])
    returned = train_step(model, inputs, factors)
    own_norm = model.clip_grad_norm_(CLIP).item()
    optimizer.step()
    scheduler.step()
    told += [abs(own_norm / norms[step] - 1)]
    at = smp.dp_rank() * MANY
    theirs = losses[step][at : at + MANY]
    told += [abs(a.item() / b - 1) for a, b in zip(returned["loss"], theirs)]

states = optimizer.state_dict()
assert states["param_groups"] == reference.state_dict()["param_groups"]
flat = lambda found: {{
    f"{{n}}.{{k}}": v for n, each in found["state"].items() for k, v in each.items()
}}
note({{
    "model": worst(model.state_dict(), alone.state_dict()),
    "optimizer": worst(flat(states), flat(reference.state_dict())),
    "told": max(told),
    "shape": list(returned["output"].concat().shape),
    "own": sum(p.numel() for p in net.parameters()) / sum(p.numel() for p in alone.parameters()),
    "local": sum(p.numel() for p in model.local_parameters())
        == sum(p.numel() for p in net.parameters()),
}})
"""


def _ends_well(outcome: Outcome, ranks: int) -> list[Any]:
    assert outcome.code == 0, outcome.output
    assert len(outcome.notes) == ranks
    return list(outcome.notes.values())


@pytest.mark.parametrize(
    ("name", "config", "ranks"),
    [
        ("gpt, tied", "dict(partitions=2, starts=['blocks.2'])", 2),
        pytest.param(
            "gpt, tied",
            "dict(partitions=2, starts=['blocks.2'], schedule='simple')",
            2,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "dropout",
            "dict(config={'partitions': 2}, stages={'blocks.3': 1, 'norm': 1, 'head': 1})",
            4,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "encoder-decoder", "dict(partitions=2, starts=['embed'])", 2, marks=pytest.mark.slow
        ),
        pytest.param(
            "frozen and unused",
            "dict(config=dict(partitions=2, pipeline='simple'), starts=['layers.2'])",
            2,
            marks=pytest.mark.slow,
        ),
        pytest.param("dropout", "{}", 1, marks=pytest.mark.slow),
    ],
)
def test_a_script_learns_what_one_process_does(
    tmp_path: Path, name: str, config: str, ranks: int
) -> None:
    script = _PREAMBLE + _AGAINST_ONE_PROCESS.format(name=name, config=config)
    for found in _ends_well(run(tmp_path, script, ranks=ranks), ranks):
        assert found["model"] <= 1e-10
        assert found["optimizer"] <= 1e-10
        assert found["told"] <= 1e-10
        assert found["shape"][0] in (8, 8 * 9)
        assert found["local"]
        assert found["own"] < 1 or ranks == 1

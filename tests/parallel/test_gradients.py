"""Replicas of a model learn what one process learns from all their batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run

pytest.importorskip("torch")

_TRAINING = """
import copy
from launcher.parallel.gradients import accumulating, clip, replicate

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Embedding(11, 8)
        self.last = torch.nn.Linear(8, 11, bias=False)
        self.last.weight = self.first.weight
        self.unused = torch.nn.Linear(3, 3)
    def forward(self, x):
        return self.last(self.first((x[:, 0].abs() * 5).long() % 11).tanh())

def mlp():
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 11))

def frozen():
    model = mlp()
    model[0].weight.requires_grad_(False)
    return model

def train(model, optimizer, shares, *, steps, accumulation, clip_to, apart):
    '''One process learns from all shares in turn; a rank from its own.'''
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(accumulation):
            with accumulating(model, is_last=number == accumulation - 1):
                for share in shares:
                    generator = torch.Generator().manual_seed(1000 * step + 10 * number + share)
                    x = torch.randn(4, 6, generator=generator, dtype=dtype)
                    y = torch.randint(0, 11, (4,), generator=generator)
                    loss = torch.nn.functional.cross_entropy(model(x), y)
                    (loss / accumulation / len(shares)).backward()
        norms.append(apart(model.parameters(), clip_to))
        optimizer.step()

def furthest(one, other):
    return max(
        ((a - b).norm() / a.norm().clamp_min(1e-12)).item()
        for a, b in zip(one.parameters(), other.parameters(), strict=True)
    )

world = parallel.init()
found = {}
"""

_AGAINST_ONE_PROCESS = """
for dtype, make_optimizer, name in (
    (torch.float64, lambda p: torch.optim.AdamW(p, lr=0.01), "AdamW"),
    (torch.float32, lambda p: torch.optim.SGD(p, lr=0.1), "SGD"),
):
    for model_of in (mlp, frozen, Tied):
        for accumulation in (1, 3):
            torch.manual_seed(0)
            alone = model_of().to(dtype)
            together = replicate(copy.deepcopy(alone), world, find_unused_parameters=True)
            how = dict(steps=5, accumulation=accumulation, clip_to=0.2)
            norms = []
            everyone, mine = range(parallel.size()), [parallel.rank()]
            plain = torch.nn.utils.clip_grad_norm_
            train(alone, make_optimizer(alone.parameters()), everyone, apart=plain, **how)
            ours = lambda parameters, norm: clip(parameters, norm, world)
            train(together, make_optimizer(together.parameters()), mine, apart=ours, **how)
            assert max(norms) > 0.2, norms  # clipping has done something
            found[f"{name} {model_of.__name__} x{accumulation}"] = furthest(alone, together)
note(found)
parallel.leave()
"""


@pytest.mark.long
def test_replicas_learn_what_one_process_does(tmp_path: Path) -> None:
    outcome = run(tmp_path, _TRAINING + _AGAINST_ONE_PROCESS, ranks=2)
    assert outcome.code == 0, outcome.output
    for differences in outcome.notes.values():
        assert len(differences) == 12
        for what, difference in differences.items():
            assert difference <= (1e-10 if "AdamW" in what else 1e-5), what


_COMPRESSED = """
dtype = torch.float32
for name in (None, "fp16", "power_sgd"):
    torch.manual_seed(0)
    alone = mlp()
    together = replicate(copy.deepcopy(alone), world, compression=name)
    norms = []
    skip = lambda parameters, norm: 0.0
    how = dict(steps=1, accumulation=1, clip_to=None, apart=skip)
    train(alone, torch.optim.SGD(alone.parameters(), lr=1.0), range(parallel.size()), **how)
    train(together, torch.optim.SGD(together.parameters(), lr=1.0), [parallel.rank()], **how)
    found[str(name)] = furthest(alone, together)
    everyone = [None] * parallel.size()
    dist.all_gather_object(everyone, [p.tolist() for p in together.parameters()])
    assert all(each == everyone[0] for each in everyone), name
note(found)
parallel.leave()
"""


@pytest.mark.long
def test_compressed_gradients_are_nearly_the_same_and_alike_on_all_ranks(tmp_path: Path) -> None:
    outcome = run(tmp_path, _TRAINING + _COMPRESSED, ranks=2)
    assert outcome.code == 0, outcome.output
    differences = outcome.notes[0]
    assert differences["None"] < 1e-6
    assert 1e-6 < differences["fp16"] < 1e-3
    assert differences["power_sgd"] < 1e-6  # it begins with gradients as they are


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bf16", "compression 'bf16' needs nccl or xccl, but this job communicates over gloo"),
        ("int8", "compression 'int8' needs nccl or xccl"),
        ("fp8", "cannot be compressed as 'fp8': use one of bf16, fp16, int8, power_sgd"),
    ],
)
def test_a_compression_that_cannot_be_is_refused(tmp_path: Path, name: str, words: str) -> None:
    script = _TRAINING + f"replicate(mlp(), world, compression={name!r})"
    outcome = run(tmp_path, script, ranks=1)
    assert outcome.code == 1
    assert words in outcome.output

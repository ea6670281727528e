"""A model can really be cut at all places where a profile says that it can."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted

pytest.importorskip("torch")

_SCRIPT = """

MANY = 2
world = parallel.init(pipeline=2, microbatches=MANY)

def cost(output, factor):
    tensors = [leaf for leaf in tree_leaves(output) if torch.is_tensor(leaf)]
    return sum(each.sin().mean() for each in tensors) * factor.mean()

def here(model, example, arguments, factor):
    randomness = Randomness(model, cut(model, (), example)[0].drawing)
    for part in range(MANY):
        randomness.set_position(step=0, replica=0, microbatch=part)
        given = [each.chunk(MANY)[part] for each in arguments.values()]
        (cost(model(*given), factor.chunk(MANY)[part]) / MANY).backward()
    return nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()

found = {}
for name, architecture in ARCHITECTURES.items():
    torch.manual_seed(0)
    made = architecture.make().double()
    parts = [architecture.arguments(torch.Generator().manual_seed(n)) for n in range(MANY)]
    example = {n: t.double() if t.is_floating_point() else t for n, t in parts[0].items()}
    arguments = {n: torch.cat([p[n].to(example[n].dtype) for p in parts]) for n in example}
    factor = torch.linspace(1, 2, 4 * MANY, dtype=torch.float64)
    expected = here(copy.deepcopy(made), example, arguments, factor)
    for start in boundaries(made, example):
        pipeline = Pipeline(
            copy.deepcopy(made), world, starts=[start], example=example, loss=cost
        )
        pipeline.step(*arguments.values(), target=factor)
        found[f"{name} at {start}"] = [pipeline.clip(float("inf")).item(), expected]
note(found)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_gradients_are_those_of_one_process_wherever_a_model_is_cut(tmp_path: Path) -> None:
    found = noted(tmp_path, _SCRIPT)[0]
    assert len(found) > 100
    assert {name for name, (mine, one) in found.items() if abs(mine - one) > 1e-10 * one} == set()

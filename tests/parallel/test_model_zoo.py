"""Published models, cut as they are, learn what one process learns: a table of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ranks import run

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="needs the library 'hugging-face'")

from model_zoo import ZOO

_TESTS = Path(__file__).parent
_SCRIPT = f"""
import copy, warnings
sys.path.append({str(_TESTS)!r})
warnings.filterwarnings("ignore")
from model_zoo import ZOO
from torch.utils._pytree import tree_leaves
from launcher.errors import ParallelError
from launcher.parallel.boundaries import boundaries
from launcher.parallel.pipeline import Pipeline
from launcher.parallel.randomness import Randomness
from launcher.parallel.stages import cut

STEPS = 5
"""
_LEARNING = """
MANY = {stages}
world = parallel.init(pipeline=MANY, microbatches=MANY)

def loss(output, target):
    found = getattr(output, "loss", None)
    if found is not None:
        return found
    leaves = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in leaves if each.is_floating_point())

def double(value):
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value

def learned(name):
    torch.manual_seed(0)
    model = ZOO[name].make().double().train()
    alone = copy.deepcopy(model)
    torch.manual_seed(1)
    batches = [
        {{key: double(value) for key, value in ZOO[name].arguments().items()}}
        for _ in range(STEPS * MANY)
    ]
    places = boundaries(model, batches[0])
    starts = [places[len(places) * n // {stages}] for n in range(1, {stages})]
    pipeline = Pipeline(model, world, starts=starts, example=batches[0], loss=loss)
    randomness = Randomness(alone, cut(alone, (), batches[0])[0].drawing)
    ours = torch.optim.AdamW(pipeline.parameters(), lr=0.01)
    theirs = torch.optim.AdamW(alone.parameters(), lr=0.01)
    gradients = {{key: 0.0 for key, _ in alone.named_parameters()}}
    worst = 0.0
    for step in range(STEPS):
        theirs.zero_grad()
        expected = 0.0
        parts = batches[step * MANY : (step + 1) * MANY]
        for number, part in enumerate(parts):
            randomness.set_position(step=step, replica=0, microbatch=number)
            value = loss(alone(**part), None) / MANY
            value.backward()
            expected += value.item()
        for key, each in alone.named_parameters():
            if each.grad is not None:
                gradients[key] = max(gradients[key], each.grad.norm().item())
        theirs.step()
        ours.zero_grad()
        whole = {{key: torch.cat([part[key] for part in parts]) for key in parts[0]}}
        found = pipeline.step(**whole, target=torch.zeros(MANY)).item()
        ours.step()
        worst = max(worst, abs(found - expected) / abs(expected) - 3e-7)  # summed as float32
    largest = max(gradients.values())
    reference = dict([*alone.named_parameters(remove_duplicate=False), *alone.named_buffers()])
    for key, own in [*pipeline.module.named_parameters(), *pipeline.module.named_buffers()]:
        if gradients.get(key, 1.0) <= 1e-12 * largest:
            continue  # zero in theory, so its sign is that of rounding errors
        other = reference[key].double()
        worst = max(worst, ((own.double() - other).norm() / other.norm().clamp_min(1e-9)).item())
    return [worst, len(places), starts]

found = {{}}
for name in {names}:
    try:
        found[name] = learned(name)
    except ParallelError as error:
        found[name] = [str(error)]
note(found)
parallel.leave()
"""


def check(tmp_path: Path, names: list[str], stages: int) -> dict[str, Any]:
    script = _SCRIPT + _LEARNING.format(stages=stages, names=names)
    outcome = run(tmp_path, script, ranks=stages)
    assert outcome.code == 0, outcome.output
    for name, (worst, *rest) in outcome.notes[0].items():
        print(f"| {name} | {stages} | {worst} | {' | '.join(map(str, rest))} |")
    return {
        name: notes
        for name, *all_notes in (
            (n, *(o[n] for o in outcome.notes.values())) for n in ZOO if n in names
        )
        for notes in all_notes
        if isinstance(notes[0], str) or not notes[0] <= 1e-9
    }


@pytest.mark.slow
@pytest.mark.library("hugging-face")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stages", [2, 3])
def test_published_models_learn_what_one_process_does(tmp_path: Path, stages: int) -> None:
    assert check(tmp_path, list(ZOO), stages) == {}

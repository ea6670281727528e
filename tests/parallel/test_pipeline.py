"""A pipeline learns what one process learns from the same microbatches."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run

pytest.importorskip("torch")

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
world = parallel.init(pipeline={stages}, microbatches=MANY, placement="spread")
for name, architecture in ARCHITECTURES.items():
    for schedule in ("simple", "interleaved"):
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
                    randomness.at(step=step, replica=replica, microbatch=microbatch)
                    value = loss(alone(**all_batches[at]), all_targets[at])
                    (value / MANY / replicas).backward()
                norms.append(torch.nn.utils.clip_grad_norm_(alone.parameters(), CLIP).item())
                optimizer.step()
            assert max(norms) > CLIP, norms

            pipeline = Pipeline(
                model, world, starts=architecture.starts[: {stages} - 1],
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
            held = sum(p.numel() for p in model.parameters())
            needed = sum(p.numel() for p in pipeline.parameters())
            found[f"{{name}}, {{schedule}}, {{dtype}}"] = [worst, held - needed]
note(found)
parallel.leave()
"""


@pytest.mark.parametrize(
    ("ranks", "stages", "many"),
    [
        (2, 2, 2),
        pytest.param(2, 2, 7, marks=pytest.mark.slow),
        pytest.param(3, 3, 3, marks=pytest.mark.slow),
        pytest.param(4, 4, 8, marks=pytest.mark.slow),
        pytest.param(4, 2, 4, marks=pytest.mark.slow),
    ],
    ids=lambda number: str(number),
)
def test_a_pipeline_learns_what_one_process_does(
    tmp_path: Path, ranks: int, stages: int, many: int
) -> None:
    script = _PREAMBLE + _AGAINST_ONE_PROCESS.format(stages=stages, many=many)
    outcome = run(tmp_path, script, ranks=ranks)
    assert outcome.code == 0, outcome.output
    assert len(outcome.notes) == ranks
    for found in outcome.notes.values():
        assert len(found) == 15 * 4
        for what, (difference, foreign) in found.items():
            assert difference <= (1e-10 if "float64" in what else 1e-5), what
            assert foreign == 0, f"{what}: parameters of other stages are held"

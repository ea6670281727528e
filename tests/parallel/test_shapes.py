"""A pipeline takes batches of other sizes and lengths than those it was cut with."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run

pytest.importorskip("torch")

_TESTS = Path(__file__).parent
_SCRIPT = f"""
import copy
sys.path.append({str(_TESTS)!r})
from architectures import ARCHITECTURES
from launcher.parallel.pipeline import Pipeline
from launcher.errors import ParallelError

world = parallel.init(pipeline=2, microbatches=2)
torch.manual_seed(0)
model = ARCHITECTURES["gpt, tied"].make().double()
alone = copy.deepcopy(model)
def loss(output, target):
    return output.sin().mean()
def ids(samples, length):
    return torch.randint(0, 19, (samples, length))
pipeline = Pipeline(
    model, world, starts=["blocks.2"], example={{"ids": ids(4, 9)}}, loss=loss, schedule="simple"
)
own = torch.optim.SGD(pipeline.parameters(), lr=0.1)  # which does not magnify tiny gradients
theirs = torch.optim.SGD(alone.parameters(), lr=0.1)
for samples, length in [(8, 9), (6, 5), (8, 9), (2, 16)]:
    batch = ids(samples, length)
    pipeline.expect(batch[: samples // 2])
    own.zero_grad()
    pipeline.step(batch, target=torch.ones(2))
    own.step()
    theirs.zero_grad()
    loss(alone(batch), None).backward()
    theirs.step()
reference = dict(alone.named_parameters(remove_duplicate=False))
found = [
    ((own - reference[name]).norm() / reference[name].norm()).item()
    for name, own in pipeline.module.named_parameters()
]
words = ""
if pipeline.is_first:
    try:
        pipeline.step(ids(8, 9))
    except ParallelError as error:
        words = str(error)
note([max(found), words])
parallel.leave()
"""


@pytest.mark.long
def test_batches_of_other_shapes_are_announced(tmp_path: Path) -> None:
    outcome = run(tmp_path, _SCRIPT, ranks=2)
    assert outcome.code == 0, outcome.output
    (first, words), (last, _) = outcome.notes[0], outcome.notes[1]
    assert max(first, last) <= 1e-10
    assert "shapes (4, 9) torch.int64, but the pipeline expects (1, 16) torch.int64: pad" in words

"""What a rank of a pipeline holds: its own stage, and as many microbatches as its schedule lets."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted

pytest.importorskip("torch")

_LAYERS, _WIDTH = 8, 256
_LAYER_BYTES = 4 * _WIDTH * _WIDTH

_PREAMBLE = f"""
import gc
from dataclasses import replace

STAGES = int(os.environ["WORLD_SIZE"])
world = parallel.init(pipeline=STAGES)

def pipeline(layers, microbatches, schedule="interleaved"):
    each = len(layers) // STAGES
    return Pipeline(
        nn.Sequential(*layers),
        replace(world, degrees=replace(world.degrees, microbatches=microbatches)),
        starts=[str(stage * each) for stage in range(1, STAGES)],
        example={{"input": torch.ones(1, {_WIDTH})}},
        loss=lambda output, target: (output - target).square().mean(),
        schedule=schedule,
    )

def step(made, microbatches):
    batch = torch.ones(microbatches, {_WIDTH})
    return made.step(batch, target=batch)
"""

_LIVE = """
class Count(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        live.append(live[-1] + 1)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        live.append(live[-1] - 1)
        return gradient

class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return Count.apply(x * self.scale)

found, live = {}, [0]
for schedule in ("simple", "interleaved"):
    for many in (4, 7, 16):
        made = pipeline([Counted() for _ in range(STAGES)], many, schedule)
        live = [0]  # after the model was looked at
        step(made, many)
        found[f"{schedule} {many}"] = [max(live), live[-1]]
note(found)
"""


@pytest.mark.parametrize("stages", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_stage_holds_no_more_microbatches_than_its_schedule_says(
    tmp_path: Path, stages: int
) -> None:
    """Those whose forward pass is done and whose backward pass has not begun; none in the end."""
    for stage, found in enumerate(noted(tmp_path, _PREAMBLE + _LIVE, ranks=stages)):
        assert found == {
            **{f"simple {many}": [many, 0] for many in (4, 7, 16)},
            **{f"interleaved {many}": [min(many, stages - stage), 0] for many in (4, 7, 16)},
        }


_BYTES = f"""
def held():
    "Bytes of all tensors of this process that are as large as a layer, whoever has them."
    gc.collect()
    tensors = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
    storages = [each.untyped_storage() for each in tensors if each.device.type == "cpu"]
    sizes = {{storage.data_ptr(): storage.nbytes() for storage in storages}}
    return sum(size for size in sizes.values() if size >= {_LAYER_BYTES})

layers = [nn.Linear({_WIDTH}, {_WIDTH}, bias=False) for _ in range({_LAYERS})]
model = nn.Sequential(*layers)
whole = held()
made = pipeline(layers, 4)
built = held()
optimizer = torch.optim.AdamW(made.parameters())
step(made, 4)
optimizer.step()
note([whole, built, held()])
"""


@pytest.mark.parametrize("stages", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_rank_holds_the_parameters_of_its_stage_alone(tmp_path: Path, stages: int) -> None:
    """After a step also their gradients and AdamW's two moments: four times as much."""
    own = _LAYER_BYTES * _LAYERS // stages
    found = noted(tmp_path, _PREAMBLE + _BYTES, ranks=stages)
    assert found == [[_LAYERS * _LAYER_BYTES, own, 4 * own]] * stages

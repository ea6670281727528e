"""Measure the memory of a task's model, without a GPU: `python -m launcher.trainers.model_profile`.

A `task_process`, whose answer is a ModelProfile. Nothing is allocated for the model itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.batchnorm import _BatchNorm

from launcher import parallel
from launcher.shared import Footprint
from launcher.trainers.batches import TrainingBatches
from launcher.trainers.footprint import block_list, measure
from launcher.trainers.task import make_task
from launcher.trainers.task_process import print_progress, serve

#: Samples that the memory is measured with: those of one, and of two.
_SAMPLES = 2


@dataclass(frozen=True, kw_only=True)
class ModelProfile:
    """A model's memory. blocks: the module list whose modules are recomputed, if it has a name."""

    footprint: Footprint
    blocks: str | None
    batch_norm: bool

    def to_json(self) -> str:
        """Return the profile as JSON, in which activations are a list of pairs."""
        plain = asdict(self)
        plain["footprint"]["activations"] = [
            [list(setting), asdict(kept)] for setting, kept in self.footprint.activations.items()
        ]
        return json.dumps(plain)


def main() -> int:
    """Answer the request on stdin and return the exit code."""
    return serve(lambda fields: answer(fields).to_json())


def answer(request: Mapping[str, Any]) -> ModelProfile:
    """Measure the model of a request's task, with its hyperparameters. Raises the task's errors."""
    task = replace(make_task(request["task"], request["hyperparameters"]), batch_size=_SAMPLES)
    print_progress(f"memory of {request['task']}")
    example = TrainingBatches(task, parallel.init(global_batch=_SAMPLES)).example()
    with FakeTensorMode():
        model = task.new_model()
        blocks = block_list(model)
        norms = any(isinstance(each, _BatchNorm) for each in model.modules())
    footprint = measure(task, example)
    parallel.leave()
    return ModelProfile(footprint=footprint, blocks=blocks or None, batch_norm=norms)


if __name__ == "__main__":
    sys.exit(main())

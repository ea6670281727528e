"""Checkpoints of parallel training, over torch.distributed.checkpoint.

    checkpoints = Checkpoints(folder, world)
    state = State(model=pipeline, optimizers=[optimizer], loaders={"train": loader})
    step = checkpoints.load(state) or 0
    ...
    checkpoints.save(step, state)      # written while training goes on
    ...
    checkpoints.close()

What one number of stages and replicas has saved, any other loads: everything stands under the
model's own names. A folder counts once its manifest is there and all its files are what that says.
"""

from launcher.parallel.checkpoints.checkpoints import Checkpoints
from launcher.parallel.checkpoints.exporting import export
from launcher.parallel.checkpoints.state import State

__all__ = ["Checkpoints", "State", "export"]

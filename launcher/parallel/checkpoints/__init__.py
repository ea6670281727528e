"""Checkpoints of parallel training, over torch.distributed.checkpoint.

    checkpoints = Checkpoints(folder, world)
    state = State(model=pipeline, optimizers=[optimizer], loaders={"train": loader})
    step = checkpoints.load(state) or 0
    ...
    checkpoints.save(step, state)      # written while training continues
    ...
    checkpoints.close()

A checkpoint loads with any other number of stages and replicas, because everything is saved under
the model's own names. A folder counts as complete once its manifest exists and all files match it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel.checkpoints import manifests
    from launcher.parallel.checkpoints.__main__ import main
    from launcher.parallel.checkpoints.checkpoints import Checkpoints
    from launcher.parallel.checkpoints.contents import State, Stateful, own_name
    from launcher.parallel.checkpoints.exporting import export, export_pretrained
    from launcher.parallel.checkpoints.manifests import NAME, find_problem

__all__ = ["Checkpoints", "State", "export", "export_pretrained"]

__getattr__ = open_door(__name__)

"""Loading of a complete checkpoint into a state."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner

from launcher.errors import ParallelError
from launcher.parallel.checkpoints import manifests
from launcher.parallel.checkpoints.agreement import gathered, together
from launcher.parallel.checkpoints.targets import Targets
from launcher.parallel.checkpoints.train_state import State
from launcher.parallel.checkpoints.writer import message_of
from launcher.parallel.context import ParallelContext

_MOST = 8  # problems that a message lists


def fill(state: State, world: ParallelContext, folder: Path, group: dist.ProcessGroup) -> list[int]:
    """Load on all ranks; return those for which the checkpoint has no random states.

    Raises ParallelError on all ranks when one cannot load it.
    """
    doing = f"{folder} is not loaded"
    manifest, targets = together(lambda: _targets(state, world, folder), group, doing)
    # The ranks of one replica hold the whole model.
    names = gathered(targets.names if world.dp_rank == 0 else set(), group)
    together(lambda: _refuse(targets.problems(set().union(*names))), group, doing)
    loaded = targets.room()
    try:
        checkpoint.load(
            loaded,
            storage_reader=checkpoint.FileSystemReader(folder),
            planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
            process_group=group,
        )
    except CheckpointException as error:
        raise ParallelError(f"{doing}: {message_of(error)}") from error
    together(lambda: targets.take(loaded, step=manifest.step), group, doing)
    return [rank for rank, is_new in enumerate(gathered(targets.is_new, group)) if is_new]


def _targets(
    state: State, world: ParallelContext, folder: Path
) -> tuple[manifests.Manifest, Targets]:
    manifest = manifests.read_manifest(folder)
    saved = checkpoint.FileSystemReader(folder).read_metadata()
    replicas = int(manifest.degrees["data"])
    return manifest, Targets(state, world, saved, tied=manifest.tied, replicas=replicas)


def _refuse(problems: Iterable[str]) -> None:
    found = list(problems)
    if found:
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        raise ParallelError("; ".join(found[:_MOST]) + more)

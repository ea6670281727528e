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
from launcher.parallel.checkpoints.agreement import gather, run_on_all_ranks
from launcher.parallel.checkpoints.targets import Targets
from launcher.parallel.checkpoints.train_state import State
from launcher.parallel.checkpoints.writer import message_of
from launcher.parallel.context import ParallelContext

_MAX_PROBLEMS = 8  # in one message


def load_into(
    state: State, world: ParallelContext, folder: Path, group: dist.ProcessGroup
) -> list[int]:
    """Load a checkpoint on all ranks; return the ranks whose random states it lacks.

    Raises ParallelError on all ranks if one cannot load it.
    """
    step = f"{folder} is not loaded"
    manifest, targets = run_on_all_ranks(lambda: _targets(state, world, folder), group, step)
    # The ranks of one replica hold the whole model.
    names = gather(targets.names if world.dp_rank == 0 else set(), group)
    run_on_all_ranks(lambda: _raise_problems(targets.problems(set().union(*names))), group, step)
    loaded = targets.allocate()
    try:
        checkpoint.load(
            loaded,
            storage_reader=checkpoint.FileSystemReader(folder),
            planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
            process_group=group,
        )
    except CheckpointException as error:
        raise ParallelError(f"{step}: {message_of(error)}") from error
    run_on_all_ranks(lambda: targets.apply(loaded, step=manifest.step), group, step)
    return [
        rank for rank, is_new in enumerate(gather(targets.lacks_random_states, group)) if is_new
    ]


def _targets(
    state: State, world: ParallelContext, folder: Path
) -> tuple[manifests.Manifest, Targets]:
    manifest = manifests.read_manifest(folder)
    saved = checkpoint.FileSystemReader(folder).read_metadata()
    replicas = int(manifest.degrees["data"])
    return manifest, Targets(state, world, saved, tied=manifest.tied, replicas=replicas)


def _raise_problems(problems: Iterable[str]) -> None:
    found = list(problems)
    if found:
        more = f"; and {len(found) - _MAX_PROBLEMS} more" if len(found) > _MAX_PROBLEMS else ""
        raise ParallelError("; ".join(found[:_MAX_PROBLEMS]) + more)

"""Writing of a checkpoint in a thread: first the data, then, once complete, the manifest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from launcher.errors import ParallelError
from launcher.parallel.checkpoints import folders, manifests
from launcher.parallel.checkpoints.agreement import gather, run_on_all_ranks
from launcher.parallel.context import ParallelContext
from launcher.runtime import emit


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Writes this rank's part of each save. group: all ranks; only writers use it."""

    root: Path
    world: ParallelContext
    group: dist.ProcessGroup
    keep: int

    def write(self, step: int, staged: Mapping[str, object], tied: Mapping[str, str]) -> None:
        """Write a checkpoint. staged: this rank's contents, in CPU memory. tied: as in a Manifest.

        Raises ParallelError on all ranks if one fails.
        """
        start = time.monotonic()
        action = f"step {step} is not saved in {self.root}"
        folder = folders.folder_of(self.root, step)
        run_on_all_ranks(lambda: self._clear(step), self.group, action)
        try:
            self._write_data(folder, staged)
        except CheckpointException as error:
            raise ParallelError(f"{action}: {message_of(error)}") from error
        own = run_on_all_ranks(lambda: self._hash_files(folder), self.group, action)
        manifest = manifests.Manifest(
            step=step,
            degrees=manifests.dims_fields(self.world.degrees),
            tied=_merged(gather(tied, self.group)),
            files=_merged(gather(own, self.group)),
        )
        old = run_on_all_ranks(lambda: self._finish(folder, manifest), self.group, action)
        surplus = gather(old, self.group)[0]
        if self.world.local_rank == 0:
            folders.remove(self.root, surplus)
        if self.world.rank == 0:
            size = sum(each.size for each in manifest.files.values())
            seconds = round(time.monotonic() - start, 3)
            emit("checkpoint_saved", step=step, folder=str(self.root), bytes=size, seconds=seconds)

    def _clear(self, step: int) -> None:
        """Delete the remains of an unfinished save of this step."""
        if self.world.rank == 0:
            folders.check_is_next(self.root, step)
        if self.world.local_rank == 0:
            folders.remove(self.root, [step])

    def _write_data(self, folder: Path, staged: Mapping[str, object]) -> None:
        checkpoint.save(
            staged,
            storage_writer=checkpoint.FileSystemWriter(folder),
            planner=DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
            process_group=self.group,
        )

    def _hash_files(self, folder: Path) -> dict[str, manifests.Contents]:
        """Return this rank's files, by name."""
        own = list(folder.glob(f"__{self.world.rank}_*"))
        if self.world.rank == 0:
            own.append(folder / ".metadata")
        return {file.name: manifests.contents_of(file) for file in own}

    def _finish(self, folder: Path, manifest: manifests.Manifest) -> list[int]:
        """Mark the checkpoint as complete; return the steps whose folders can be deleted."""
        if self.world.rank != 0:
            return []
        manifests.write_manifest(folder, manifest)
        return folders.surplus(self.root, newest=manifest.step, keep=self.keep)


def _merged(parts: list[Mapping[str, object]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def message_of(error: CheckpointException) -> str:
    """Return torch's errors of the ranks that failed, without the stacks."""
    return "; ".join(
        f"{type(cause).__name__}: {cause} (rank {rank})"
        for rank, (cause, _) in sorted(error.failures.items())
    )

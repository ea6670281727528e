"""The checkpoint manager: saves while training continues, and loads complete checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.staging import BlockingAsyncStager

from launcher.errors import ParallelError
from launcher.parallel.checkpoints import folders, manifests
from launcher.parallel.checkpoints.contents import State, contents, tied
from launcher.parallel.checkpoints.targets import Targets
from launcher.parallel.context import ParallelContext
from launcher.runtime import emit

_Value = TypeVar("_Value")


class Checkpoints:
    """The checkpoints of a job: folders `step-N` in one folder that all ranks can access.

    Created on all ranks, after `parallel.init`; all make the same calls in the same order.
    keep: how many complete checkpoints remain.
    """

    def __init__(self, folder: Path | str, world: ParallelContext, keep: int = 2) -> None:
        if keep < 1:
            raise ParallelError(
                f"keep is {keep}: use at least 1, since the newest checkpoint is always kept"
            )
        self._root = Path(folder)
        self._world = world
        # A separate group: the thread's messages must not mix with those of training.
        self._group = dist.new_group(backend="gloo")
        self._writer = Writer(root=self._root, world=world, group=self._group, keep=keep)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._pending: Future[None] | None = None
        self._latest: int | None = None  # step that was saved or loaded

    def save(self, step: int, state: State, wait: bool = False) -> None:
        """Copy the state to CPU memory and write it in a thread while training continues.

        Waits for the previous save and raises its error. A step that was just saved or loaded is
        not saved again. wait: until the files are on disk. Raises ParallelError.
        """
        self._finish()
        if step != self._latest:
            staged = BlockingAsyncStager().stage(contents(state, self._world))
            self._pending = self._thread.submit(self._writer.write, step, staged, tied(state))
            self._latest = step
        if wait:
            self._finish()

    def load(self, state: State) -> int | None:
        """Fill a state from the newest complete checkpoint; return its step, or None.

        Raises ParallelError if checkpoints exist but all are damaged, or if it is of another model.
        """
        self._finish()
        # Rank 0 chooses: on a slow file system, files may not appear for all ranks at once.
        find_newest = folders.newest if self._world.rank == 0 else folders.no_choice
        own = _run_on_all_ranks(
            lambda: find_newest(self._root), self._group, "no checkpoint is loaded"
        )
        choice = _gather(own, self._group)[0]
        if choice.step is not None:
            new = load_into(
                state, self._world, folders.folder_of(self._root, choice.step), self._group
            )
            self._latest = choice.step
            self._emit("checkpoint_loaded", choice, new_ranks=new)
        elif choice.skipped:
            self._emit("checkpoint_absent", choice)
        return choice.step

    def close(self) -> None:
        """Wait for the last save and raise its error. Call it before `parallel.leave`."""
        try:
            self._finish()
        finally:
            self._thread.shutdown()

    def _finish(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._latest, step = None, self._latest
            pending.result()
            self._latest = step

    def _emit(self, event: str, choice: folders.CheckpointChoice, **fields: object) -> None:
        if self._world.rank == 0:
            skipped = "; ".join(choice.skipped)
            emit(event, step=choice.step, folder=str(self._root), skipped=skipped, **fields)


_MAX_PROBLEMS = 8  # in one message


def load_into(
    state: State, world: ParallelContext, folder: Path, group: dist.ProcessGroup
) -> list[int]:
    """Load a checkpoint on all ranks; return the ranks whose random states it lacks.

    Raises ParallelError on all ranks if one cannot load it.
    """
    step = f"{folder} is not loaded"
    manifest, targets = _run_on_all_ranks(lambda: _targets(state, world, folder), group, step)
    # The ranks of one replica hold the whole model.
    names = _gather(targets.names if world.dp_rank == 0 else set(), group)
    _run_on_all_ranks(lambda: _raise_problems(targets.problems(set().union(*names))), group, step)
    loaded = targets.allocate()
    try:
        checkpoint.load(
            loaded,
            storage_reader=checkpoint.FileSystemReader(folder),
            planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
            process_group=group,
        )
    except CheckpointException as error:
        raise ParallelError(f"{step}: {_failures_of(error)}") from error
    _run_on_all_ranks(lambda: targets.apply(loaded, step=manifest.step), group, step)
    return [
        rank for rank, is_new in enumerate(_gather(targets.lacks_random_states, group)) if is_new
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
        _run_on_all_ranks(lambda: self._clear(step), self.group, action)
        try:
            self._write_data(folder, staged)
        except CheckpointException as error:
            raise ParallelError(f"{action}: {_failures_of(error)}") from error
        own = _run_on_all_ranks(lambda: self._hash_files(folder), self.group, action)
        manifest = manifests.Manifest(
            step=step,
            degrees=manifests.dims_fields(self.world.degrees),
            tied=_merged(_gather(tied, self.group)),
            files=_merged(_gather(own, self.group)),
        )
        old = _run_on_all_ranks(lambda: self._finish(folder, manifest), self.group, action)
        surplus = _gather(old, self.group)[0]
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


def _failures_of(error: CheckpointException) -> str:
    """Return torch's errors of the ranks that failed, without the stacks."""
    return "; ".join(
        f"{type(cause).__name__}: {cause} (rank {rank})"
        for rank, (cause, _) in sorted(error.failures.items())
    )


def _run_on_all_ranks(
    function: Callable[[], _Value], group: dist.ProcessGroup, step: str
) -> _Value:
    """Run a function on all ranks and return this rank's result.

    Raises ParallelError on all ranks if the function fails on any. step: the failed step, for the
    message.
    """
    cause: Exception | None = None
    try:
        value = function()
    except Exception as error:  # noqa: BLE001 (it is sent to all ranks, and raised on all)
        cause = error
    messages = _gather(None if cause is None else _message_of(cause), group)
    if any(messages):
        failed = [(rank, text) for rank, text in enumerate(messages) if text is not None]
        raise ParallelError(f"{step}: {_by_rank(failed)}") from cause
    return value


def _gather(value: _Value, group: dist.ProcessGroup) -> list[_Value]:
    """Return the values of all ranks, by rank."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return found


def _message_of(error: Exception) -> str:
    return str(error) if isinstance(error, ParallelError) else f"{type(error).__name__}: {error}"


def _by_rank(failed: list[tuple[int, str]]) -> str:
    """Return each message once, with the ranks that raised it."""
    ranks: dict[str, list[int]] = {}
    for rank, message in failed:
        ranks.setdefault(message, []).append(rank)
    return "; ".join(
        f"{message} (rank {', '.join(map(str, each))})" for message, each in ranks.items()
    )

"""The folders of checkpoints: which one is the newest complete one, and which to delete."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import ParallelError
from launcher.parallel.checkpoints import manifests

_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True, kw_only=True)
class CheckpointChoice:
    """The checkpoint to load. step: the newest complete one's; None if there is none.

    skipped: the newer, incomplete checkpoints, each with its problem.
    """

    step: int | None
    skipped: tuple[str, ...]


def folder_of(root: Path, step: int) -> Path:
    """Return the folder of a step."""
    return root / f"step-{step}"


def steps_in(root: Path) -> list[int]:
    """Return the steps of all folders, complete or not, newest first."""
    if not root.is_dir():
        return []
    matches = (_STEP.fullmatch(path.name) for path in root.iterdir() if path.is_dir())
    return sorted((int(match[1]) for match in matches if match), reverse=True)


def newest(root: Path) -> CheckpointChoice:
    """Return the newest complete checkpoint.

    A folder without a manifest is an unfinished save. A complete checkpoint is deleted only after
    a newer one is complete. So if no folder has a manifest, there never was a complete checkpoint
    (the job was killed during the first save), and training starts from the beginning. Raises
    ParallelError if there were complete checkpoints and none is complete now.
    """
    skipped: list[str] = []
    for step in steps_in(root):
        problem = manifests.find_problem(folder_of(root, step))
        if problem is None:
            return CheckpointChoice(step=step, skipped=tuple(skipped))
        skipped.append(f"step-{step} {problem}")
    if any((folder_of(root, step) / manifests.NAME).exists() for step in steps_in(root)):
        raise ParallelError(
            f"no checkpoint in {root} is complete: {'; '.join(skipped)}; restore the "
            "files (all hosts must share the folder, or S3 must hold the files of all hosts), or "
            "start in an empty folder"
        )
    return CheckpointChoice(step=None, skipped=tuple(skipped))


def no_choice(root: Path) -> CheckpointChoice:
    """Return an empty choice, for ranks that follow the choice of rank 0."""
    return CheckpointChoice(step=None, skipped=())


def check_is_next(root: Path, step: int) -> None:
    """Raise ParallelError when a checkpoint of this step or a later one is complete.

    Or if that of this step is of another version of Launcher: it would be overwritten.
    """
    if manifests.is_of_other_format(folder_of(root, step)):
        raise ParallelError(
            f"{folder_of(root, step)} was written by another version of Launcher, so step {step} "
            "cannot be saved over it: move it away, or save to another folder"
        )
    for other in steps_in(root):
        if other >= step and manifests.find_problem(folder_of(root, other)) is None:
            raise ParallelError(
                f"{folder_of(root, other)} is complete, so step {step} cannot be saved after it: "
                "load it before training continues, or save to another folder"
            )


def surplus(root: Path, *, newest: int, keep: int) -> list[int]:
    """Return the steps to delete once the newest is complete: incomplete ones and surplus ones.

    Surplus ones are the oldest beyond `keep`. Those of another version of Launcher stay. Files are
    not read for this: one whose bytes have changed counts as complete.
    """
    others = [step for step in steps_in(root) if step != newest]
    complete = [
        step
        for step in others
        if step < newest and manifests.find_problem(folder_of(root, step), hashes=False) is None
    ]
    return [
        step
        for step in others
        if step not in complete[: keep - 1]
        and not manifests.is_of_other_format(folder_of(root, step))
    ]


def remove(root: Path, steps: Iterable[int]) -> None:
    """Delete checkpoints, manifest first, so that a half-deleted folder is not complete."""
    for step in steps:
        (folder_of(root, step) / manifests.NAME).unlink(missing_ok=True)
        # Another host may be deleting it as well.
        shutil.rmtree(folder_of(root, step), ignore_errors=True)

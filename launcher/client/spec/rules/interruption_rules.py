"""Rules for spot instances, and for the checkpoints that let a job survive interruptions.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html and the
API pages of StoppingCondition and CheckpointConfig.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.errors import Problem
from launcher.shared import DEFAULT_ML_ROOT, MlPaths

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_SPOT = ("use_spot_instances",)
_LOCAL_PATH = ("checkpoint_local_path",)
#: Folders below /opt/ml that the platform itself fills or empties.
_TAKEN = ("input", "code", "lib", "output", "model")


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with spot instances and checkpoints."""
    yield from _folder_problems(spec)
    is_lost = spec.checkpoint_s3_uri is None and not spec.allow_restart_from_scratch
    if spec.use_spot_instances and is_lost:
        yield Problem(
            path=_SPOT,
            about=(("checkpoint_s3_uri",), ("allow_restart_from_scratch",)),
            what="spot instances without checkpoints: an interruption loses all work",
            fix="write checkpoint_s3_uri: s3://bucket/prefix, and save to /opt/ml/checkpoints; "
            "or allow_restart_from_scratch: true",
        )


def _folder_problems(spec: JobSpec) -> Iterator[Problem]:
    folder = spec.checkpoint_local_path
    if folder is None:
        return
    if spec.checkpoint_s3_uri is None:
        what = "checkpoint_local_path is given, but no checkpoint_s3_uri to keep it at"
        fix = "write checkpoint_s3_uri: s3://bucket/prefix"
        yield Problem(path=_LOCAL_PATH, about=(("checkpoint_s3_uri",),), what=what, fix=fix)
    if not _is_own_folder(folder):
        what = f'"{folder}" cannot be the checkpoint folder'
        fix = f"use {MlPaths().checkpoints}, or another folder of its own below {DEFAULT_ML_ROOT}"
        yield Problem(path=_LOCAL_PATH, what=what, fix=fix)


def _is_own_folder(folder: str) -> bool:
    """Return whether a folder is below /opt/ml (which local hosts have too) and not reserved."""
    path = PurePosixPath(folder)
    if ".." in path.parts or not folder.isprintable():
        return False
    if not path.is_relative_to(DEFAULT_ML_ROOT):
        return False
    below = path.relative_to(DEFAULT_ML_ROOT).parts
    return bool(below) and below[0] not in _TAKEN

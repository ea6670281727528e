"""The job that a training script stands for where no job file describes one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from launcher.client.spec.job_parts import LOCAL_TYPES, DataService, InstanceGroup
from launcher.client.spec.job_spec import JobSpec
from launcher.errors import Problem, SpecError
from launcher.shared import Role, choice_fix

#: The endings of the scripts that a job can run.
SCRIPT_SUFFIXES = (".py", ".sh")
#: The data group's type beside a train group of AWS: what `launcher init` writes.
_DATA_TYPE = "ml.c5.xlarge"


def is_script(path: Path) -> bool:
    """Return whether a path names a training script, by its ending."""
    return path.suffix in SCRIPT_SUFFIXES


def assume_job(
    script: Path,
    *,
    instance_type: str | None,
    data_type: str | None,
    has_data_group: bool,
    home: Path,
    changes: Iterable[str] = (),
) -> JobSpec:
    """Return the job that sends the script's folder, and runs the script on one host.

    instance_type: of that host; None is this machine. data_type: of one more host, which prepares
    the batches that the script asks for, if `has_data_group`; None goes with the first type.
    home: the folder that source_dir and file:// URIs are relative to, as in a job file there.
    changes: as for `JobSpec.from_yaml`.

    Raises SpecError for a script that does not exist, and as `JobSpec.from_yaml` does.
    """
    _require_script(script)
    train_type = instance_type or LOCAL_TYPES[0]
    job = JobSpec(entry_point=script.name, source_dir=_relative(script.parent, home))
    if has_data_group:
        types = _data_type(data_type, train_type), train_type
        job = job.replace(instance_groups=_two_groups(*types), data_service=DataService())
    else:
        job = job.replace(instance_type=train_type, instance_count=1)
    return JobSpec.from_yaml(job.to_yaml(), changes)


def _two_groups(data_type: str, train_type: str) -> tuple[InstanceGroup, ...]:
    return (
        InstanceGroup("data_group", data_type, role=Role.DATA),
        InstanceGroup("train_group", train_type, role=Role.TRAIN),
    )


def _data_type(wanted: str | None, train_type: str) -> str:
    is_local = train_type in LOCAL_TYPES
    if wanted is None:
        return train_type if is_local else _DATA_TYPE
    if is_local and wanted not in LOCAL_TYPES:
        what = f"the host that prepares data is {wanted}, and the one that trains is this machine"
        fix = "give its type as well: --instance-type TYPE"
        raise SpecError([Problem(what=what, where="--data-group", fix=fix)])
    return wanted


def _require_script(script: Path) -> None:
    if script.is_file():
        return
    there = sorted(each.name for each in script.parent.glob(f"*{script.suffix}"))
    fix = choice_fix(script.name, there) if there else "give the path of the training script"
    where = str(script.parent.absolute())
    raise SpecError([Problem(what=f"there is no file {script}", where=where, fix=fix)])


def _relative(folder: Path, home: Path) -> str:
    return Path(os.path.relpath(folder, home)).as_posix()

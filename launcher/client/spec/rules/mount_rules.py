"""Rules for the channels that are file systems in a VPC.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.training_inputs import FileSystemInput
from launcher.errors import FieldPath, Problem
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_ID = re.compile(r"fs-[0-9a-f]{8,18}")
_PATH_LIMIT = 4096
_CHOICES = {"file_system_type": ("EFS", "FSxLustre"), "file_system_access_mode": ("ro", "rw")}


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the file systems."""
    for name, channel in spec.inputs.items():
        if isinstance(channel, FileSystemInput):
            path = ("inputs", name)
            yield from _value_problems(channel, path)
            yield from _surrounding_problems(spec, path)


def _value_problems(channel: FileSystemInput, path: FieldPath) -> Iterator[Problem]:
    if not _ID.fullmatch(channel.file_system_id):
        what = f'"{channel.file_system_id}" cannot be the id of a file system'
        yield Problem(path=(*path, "file_system_id"), what=what, fix="write fs-0123456789abcdef0")
    for field, known in _CHOICES.items():
        value = getattr(channel, field)
        if value not in known:
            what = f'"{value}" is not a known {field}'
            yield Problem(path=(*path, field), what=what, fix=choice_fix(value, known))
    folder = channel.directory_path
    if not folder.startswith("/") or len(folder) > _PATH_LIMIT or not folder.isprintable():
        what = f'"{folder}" cannot be a folder of the file system'
        fix = "write its path from the root; for FSxLustre, /MOUNT_NAME/folder"
        yield Problem(path=(*path, "directory_path"), what=what, fix=fix)


def _surrounding_problems(spec: JobSpec, path: FieldPath) -> Iterator[Problem]:
    if not spec.subnets:
        what = "a file system is in a VPC, but the job is in none"
        fix = "write subnets and security_group_ids from which it can be reached"
        yield Problem(path=path, about=(("subnets",),), what=what, fix=fix)
    routed = [name for name, channel in spec.s3_inputs.items() if channel.instance_groups]
    if routed:
        yield Problem(
            path=path,
            about=(("inputs", routed[0], "instance_groups"),),
            what=f'channel "{routed[0]}" goes to some groups, and a file system cannot',
            fix="remove instance_groups of all channels: SageMaker routes all of them, or none",
        )

"""Rules for the channels that are file systems in a VPC.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.training_inputs import FileSystemInput
from launcher.errors import Problem

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the folders of file systems."""
    for name, channel in spec.inputs.items():
        if isinstance(channel, FileSystemInput):
            folder = channel.directory_path
            if not folder.startswith("/") or not folder.isprintable():
                what = f'"{folder}" cannot be a folder of the file system'
                fix = "write its path from the root; for FSxLustre, /MOUNT_NAME/folder"
                yield Problem(path=("inputs", name, "directory_path"), what=what, fix=fix)

"""Resolution of a job's relative paths against the folder of the file it was read from."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


FILE_SCHEME = "file://"
S3_SCHEME = "s3://"


def anchored(spec: JobSpec, folder: Path) -> JobSpec:
    """Return the job with every local path made absolute.

    This covers the code (source_dir, or entry_point without one), the dependencies, every file://
    URI, the partition file, and what tracking writes or loads. A leading ~ is the home folder. An
    absolute entry_point inside source_dir becomes relative to it.
    """
    changes: dict[str, Any] = {field: _uri(uri, folder) for field, uri in spec.locations.items()}
    channels = {
        name: dataclasses.replace(channel, s3_data=_uri(channel.s3_data, folder))
        for name, channel in spec.s3_inputs.items()
    }
    script = "entry_point" if spec.source_dir is None else "source_dir"
    changes |= {
        script: _path(getattr(spec, script), folder),
        "dependencies": tuple(_path(path, folder) for path in spec.dependencies),
        "inputs": {**spec.inputs, **channels},
        "distribution": spec.distribution
        and spec.distribution.anchored(lambda path: _path(path, folder)),
        "tracking": spec.tracking and spec.tracking.anchored(lambda path: _path(path, folder)),
    }
    return _with_relative_script(spec.replace(**changes))


def _with_relative_script(spec: JobSpec) -> JobSpec:
    """Return the job with a script that is given by its absolute path relative to its source_dir.

    A script elsewhere is left to the rules.
    """
    script = os.path.expanduser(spec.entry_point)  # noqa: PTH111 (as above)
    if spec.source_dir is None or spec.has_remote_source or not script.startswith("/"):
        return spec
    for follow in (os.path.abspath, os.path.realpath):
        script_path, folder = Path(follow(script)), Path(follow(spec.source_dir))
        if script_path.is_relative_to(folder):
            return spec.replace(entry_point=script_path.relative_to(folder).as_posix())
    return spec


def _uri(uri: str, folder: Path) -> str:
    if not uri.startswith(FILE_SCHEME):
        return uri
    return FILE_SCHEME + _path(uri[len(FILE_SCHEME) :], folder)


def _path(path: str, folder: Path) -> str:
    if not path or path.startswith(S3_SCHEME):
        return path
    # Path.resolve would follow links, and Path.expanduser raises for the ~ of an unknown user.
    return os.path.abspath(folder / os.path.expanduser(path))  # noqa: PTH100, PTH111

"""Relative paths of a job, seen from the folder of the file that it was read from."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from launcher.spec.job import JobSpec

FILE_SCHEME = "file://"


def anchored(spec: JobSpec, folder: Path) -> JobSpec:
    """The job with absolute paths: source_dir (or else entry_point), and every file:// URI."""
    script = "entry_point" if spec.source_dir is None else "source_dir"
    changes: dict[str, Any] = {
        script: _path(getattr(spec, script), folder),
        "output_path": spec.output_path and _uri(spec.output_path, folder),
        "code_location": spec.code_location and _uri(spec.code_location, folder),
        "checkpoint_s3_uri": spec.checkpoint_s3_uri and _uri(spec.checkpoint_s3_uri, folder),
        "inputs": {
            name: dataclasses.replace(channel, s3_data=_uri(channel.s3_data, folder))
            for name, channel in spec.inputs.items()
        },
    }
    return spec.replace(**changes)


def _uri(uri: str, folder: Path) -> str:
    if not uri.startswith(FILE_SCHEME):
        return uri
    return FILE_SCHEME + _path(uri[len(FILE_SCHEME) :], folder)


def _path(path: str, folder: Path) -> str:
    if not path:
        return path
    return os.path.abspath(folder / path)  # noqa: PTH100  Path.resolve would follow links

"""The way from the fields of a job to the CreateTrainingJob request and back, by declared paths.

The builder fills the paths, and an Estimator's arguments are read back from them. A field that the
builder does not make from several others is a plain copy.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from launcher.client.spec import JobSpec
from launcher.errors import FieldPath
from launcher.shared import SECRET_PREFIX

#: In the order of the job's fields.
REQUEST_PATHS: Mapping[str, str] = {
    part.name: part.metadata["path"]
    for part in dataclasses.fields(JobSpec)
    if part.metadata.get("path")
}


def fill_paths(spec: JobSpec, made: Mapping[str, object]) -> dict[str, Any]:
    """Return the request's parts: the fields that the builder has made, and copies of the others.

    Values that are absent (None, an empty sequence, or False by default) are omitted.
    """
    defaults = {part.name: part.default for part in dataclasses.fields(spec)}
    request: dict[str, Any] = {}
    for name, path in REQUEST_PATHS.items():
        value = made[name] if name in made else _copy(getattr(spec, name), defaults[name])
        if value is not None and value != []:
            _put(request, path.split("."), value)
    return request


def read_paths(description: Mapping[str, object]) -> dict[str, Any]:
    """Return the value at each field's path in a request or a job's description, where it has one.

    The inverse of `fill_paths` for copies; fields that the builder makes need more.
    """
    found = {name: read_path(description, path) for name, path in REQUEST_PATHS.items()}
    return {name: value for name, value in found.items() if value is not None}


def read_path(description: Any, path: str) -> Any:
    """Return the value at a path, or None."""
    for name in path.split("."):
        description = (description or {}).get(name)
    return description


#: The names of a channel's fields that differ from the request's.
_OF_CHANNELS = {
    "S3Uri": "s3_data",
    "S3DataDistributionType": "distribution",
    "CompressionType": "compression",
    "RecordWrapperType": "record_wrapping",
    "InstanceGroupNames": "instance_groups",
}
_AROUND_A_FIELD = ("DataSource", "S3DataSource", "FileSystemDataSource", "ChannelName")


def field_of(spec: JobSpec, request: Mapping[str, Any], path: FieldPath) -> FieldPath | None:
    """Return the field of a job that a part of its request comes from, None where it has none.

    path: of the part, as ("InputDataConfig", 0). A channel is the input of its name, or the model.
    """
    match path:
        case ("InputDataConfig", int(index), *below):
            return _field_of_channel(spec, request["InputDataConfig"][index]["ChannelName"], below)
        case ("HyperParameters", "sagemaker_submit_directory"):
            return ("source_dir",)
        case ("Environment", str(name)) if name.startswith(SECRET_PREFIX):
            return ("secrets", name.removeprefix(SECRET_PREFIX))
        case ("Tags", int(index), *_):
            return ("tags", request["Tags"][index].get("Key", ""))
        case ("ResourceConfig", "InstanceGroups", int(index), str(name)):
            return ("instance_groups", index, _snake_case(name))
    parts = [str(part) for part in path]
    for name, place in REQUEST_PATHS.items():
        if parts[: len(names := place.split("."))] == names:
            return (name, *path[len(names) :])
    return None


def _field_of_channel(spec: JobSpec, name: str, below: Sequence[str | int]) -> FieldPath | None:
    if name in spec.inputs:
        parts = [part for part in below if part not in _AROUND_A_FIELD][:2]
        fields = (part if isinstance(part, int) else _snake_case(part) for part in parts)
        return ("inputs", name, *fields)
    if spec.model_uri is None or name != spec.model_channel_name:
        return None
    return ("model_channel_name",) if tuple(below) == ("ChannelName",) else ("model_uri",)


def _snake_case(name: str) -> str:
    return _OF_CHANNELS.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _copy(value: object, default: object) -> Any:
    if value is False and default is False:
        return None
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _put(request: dict[str, Any], names: Iterable[str], value: Any) -> None:
    *around, last = names
    for name in around:
        request = request.setdefault(name, {})
    request[last] = value

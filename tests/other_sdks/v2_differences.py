"""The differences between SDK v2's requests and Launcher's, each with its name in the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = "absent"
#: A field of the request: its path, SDK v2's value and ours.
Field = tuple[tuple[str, ...], Any, Any]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A named reason, and the fields that it explains.

    explains: whether it is the reason for a field of a request. refuses: a part of the message
    with which one of the two packages refuses the job, and which of them.
    """

    name: str
    explains: Callable[[Field], bool] = lambda field: False
    refuses: Mapping[str, str] | None = None


def _is_of_the_start(field: Field) -> bool:
    """Return whether a field only says how the container starts, and where its code is."""
    path, theirs, ours = field
    if path == ("AlgorithmSpecification", "ContainerEntrypoint"):
        return bool(theirs == ABSENT and ours[-1].endswith("/launch.py"))
    if path[:2] == ("InputDataConfig", "code"):
        return theirs == ABSENT or (path[2:] == ("InputMode",) and ours == "File")
    return path[0] == "HyperParameters" and path[1].startswith("sagemaker_") and ours == ABSENT


def _is_the_codes_place(field: Field) -> bool:
    path, theirs, ours = field
    is_place = path == ("HyperParameters", "sagemaker_submit_directory")
    is_place |= path[:2] == ("InputDataConfig", "code") and path[-1] == "S3Uri"
    return is_place and "/source/" in str(theirs) and "/code/" in str(ours)


def _is_the_wait_for_data(field: Field) -> bool:
    path, theirs, ours = field
    if path != ("AlgorithmSpecification", "MetricDefinitions"):
        return False
    others = [each for each in ours if each["Name"] != "data/wait_share"]
    return len(others) < len(ours) and others == ([] if theirs == ABSENT else theirs)


DIFFERENCES = (
    Difference(name="start", explains=_is_of_the_start),
    Difference(
        name="token",
        explains=lambda field: field[0] == ("Environment", "LAUNCHER_TOKEN"),
    ),
    Difference(name="code's place", explains=_is_the_codes_place),
    Difference(
        name="debugger",
        explains=lambda field: field[0][0] == "DebugHookConfig" and field[2] == ABSENT,
    ),
    Difference(
        name="profiler",
        explains=lambda field: (
            field[0][0] == "ProfilerConfig" and field[2] == ABSENT and field[1] is not True
        ),
    ),
    Difference(
        name="model_dir",
        explains=lambda field: field[0] == ("HyperParameters", "model_dir") and field[2] == ABSENT,
    ),
    Difference(
        name="checkpoint folder",
        explains=lambda field: field == (("CheckpointConfig", "LocalPath"), ABSENT, CHECKPOINTS),
    ),
    Difference(
        name="slash",
        explains=lambda field: (
            (field[0] == ("OutputDataConfig", "S3OutputPath") and field[1].rstrip("/") == field[2])
            or (
                field[0] == ("CheckpointConfig", "S3Uri") and f"{field[1].rstrip('/')}/" == field[2]
            )
        ),
    ),
    Difference(
        name="channels of every group",
        explains=lambda field: field[0][-1] == "InstanceGroupNames" and field[1] == ABSENT,
    ),
    Difference(
        name="spot without checkpoints",
        refuses={"launcher": "spot instances without checkpoints"},
    ),
    Difference(
        name="distribution switched off",
        refuses={"sagemaker": "Don't set training instance groups while no distribution"},
    ),
    Difference(
        name="group of torchrun",
        explains=lambda field: (
            field[0] == ("HyperParameters", "sagemaker_distribution_instance_groups")
            and field[1] == ABSENT
        ),
    ),
    Difference(name="wait for data", explains=_is_the_wait_for_data),
    Difference(
        name="old Python",
        refuses={"launcher": "and Launcher starts in 3.10 or"},
    ),
)
CHECKPOINTS = "/opt/ml/checkpoints"


def fields_of(request: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return a request as one value per path; channels by name, and empty mappings left out."""
    return dict(_fields(request, ()))


def differing(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Field]:
    """Return the fields in which two requests differ."""
    left, right = fields_of(theirs), fields_of(ours)
    both = {path: (left.get(path, ABSENT), right.get(path, ABSENT)) for path in {*left, *right}}
    return sorted((path, *values) for path, values in both.items() if values[0] != values[1])


def _fields(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _fields(item, (*path, name))
    elif path == ("InputDataConfig",):
        order = [each["ChannelName"] for each in value if not _is_code(each)]
        if order:
            yield (*path, "order"), order
        for channel in value:
            yield from _fields(channel, (*path, channel["ChannelName"]))
    else:
        yield path, value


def _is_code(channel: Mapping[str, Any]) -> bool:
    return bool(channel["ChannelName"] == "code")

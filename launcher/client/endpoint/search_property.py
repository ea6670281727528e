"""The properties of a training job that Search filters and sorts by: their kinds and values."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.endpoint.responses import validation_error
from launcher.client.request import service_model

if TYPE_CHECKING:
    from botocore.model import Shape

Document = Mapping[str, Any]


class PropertyKind(enum.Enum):
    """The kind of a property, which decides how it is compared.

    ANY: a hyperparameter, a number where its text is one; STRUCTURE: it exists or does not.
    """

    TEXT = "text"
    NUMBER = "number"
    TIME = "timestamp"
    ANY = "hyperparameter"
    STRUCTURE = "structure"


#: Properties whose second part is a key, which may contain dots itself.
_KEYED = {
    "Metrics": PropertyKind.NUMBER,
    "HyperParameters": PropertyKind.ANY,
    "Tags": PropertyKind.TEXT,
    "Environment": PropertyKind.TEXT,
}
_KINDS = {
    "string": PropertyKind.TEXT,
    "boolean": PropertyKind.TEXT,
    "timestamp": PropertyKind.TIME,
    "structure": PropertyKind.STRUCTURE,
    "map": PropertyKind.STRUCTURE,
    **dict.fromkeys(("integer", "long", "float", "double"), PropertyKind.NUMBER),
}


def kind_of(name: str) -> PropertyKind:
    """Return the kind of a property ("Tags.team", "ResourceConfig.InstanceCount").

    Raises ApiError for a name that a training job does not have.
    """
    head, dot, key = name.partition(".")
    if head in _KEYED and dot:
        if not key:
            raise _unknown(name)
        return _KEYED[head]
    shape: Shape = service_model().shape_for("TrainingJob")
    for part in name.split("."):
        shape = _element(shape)
        if shape.type_name != "structure" or part not in shape.members:
            raise _unknown(name)
        shape = shape.members[part]
    return _KINDS[_element(shape).type_name]


def check_list_property(name: str) -> None:
    """Raise ApiError for a name that is no list of structures, as nested filters need."""
    shape = service_model().shape_for("TrainingJob").members.get(name)
    if shape is None or shape.type_name != "list" or shape.member.type_name != "structure":
        raise validation_error(f"The property {name} of a TrainingJob has no nested properties")


def values_of(document: Document, name: str) -> list[object]:
    """Return a property's values: none if it is absent, several below a list."""
    head, dot, key = name.partition(".")
    if head in _KEYED and dot:
        entries = _entries(document, head)
        return [entries[key]] if key in entries else []
    return list(_found(document, name.split(".")))


def number_in(value: object) -> float | None:
    """Return the finite number that a value is, or that its text is; else None."""
    if not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def seconds_in(value: object) -> float | None:
    """Return a time in seconds since the epoch; ISO 8601 is in UTC unless it says otherwise."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
        value = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return value.timestamp() if isinstance(value, datetime) else None


def text_of(value: object) -> str:
    """Return a value as text, as filters write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(document: Document, head: str) -> Mapping[str, object]:
    if head == "Metrics":
        metrics = document.get("FinalMetricDataList", ())
        return {metric["MetricName"]: metric["Value"] for metric in metrics}
    if head == "Tags":
        return {tag["Key"]: tag["Value"] for tag in document.get("Tags", ())}
    entries: Mapping[str, object] = document.get(head) or {}
    return entries


def _found(value: object, path: list[str]) -> Iterator[object]:
    """Yield what is at a path, in each element of the lists on the way."""
    if isinstance(value, list):
        for element in value:
            yield from _found(element, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping) and value.get(path[0]) is not None:
        yield from _found(value[path[0]], path[1:])


def _element(shape: Shape) -> Shape:
    while shape.type_name == "list":
        shape = shape.member
    return shape


def _unknown(name: str) -> Exception:
    return validation_error(
        f"Unknown property {name}: a TrainingJob has those of its description, and "
        f"{', '.join(f'{head}.<name>' for head in _KEYED)}"
    )

"""Search: expressions over the properties of training jobs, as SearchExpression defines them."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.endpoint.listing import cut_page, refuse_token
from launcher.client.endpoint.responses import validation_error
from launcher.client.request import service_model

if TYPE_CHECKING:
    from botocore.model import Shape


#: A SearchExpression, or one of its filters.
Expression = Mapping[str, Any]
#: Of a document, or of one value.
Predicate = Callable[[Any], bool]
Comparison = Callable[[Any, Any], bool]

_ORDERINGS: Mapping[str, Comparison] = {
    "GreaterThan": lambda found, wanted: found > wanted,
    "GreaterThanOrEqualTo": lambda found, wanted: found >= wanted,
    "LessThan": lambda found, wanted: found < wanted,
    "LessThanOrEqualTo": lambda found, wanted: found <= wanted,
}
_EXISTENCE = ("Exists", "NotExists")
_TEXT_ONLY = ("Contains", "In")
#: How absent properties are sorted: last in either order.
_RANK_OF_NUMBERS, _RANK_OF_TEXTS = 0, 1


def search_jobs(documents: Iterable[Document], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of records that a Search request asks for; newest first by default."""
    if arguments["Resource"] != "TrainingJob":  # there are none
        refuse_token(arguments)
        return {"Results": []}
    matches = _expression(arguments.get("SearchExpression", {}))
    found = [document for document in documents if matches(document)]
    field = arguments.get("SortBy", "LastModifiedTime")
    is_descending = arguments.get("SortOrder", "Descending") == "Descending"
    page, token = cut_page(
        found,
        key=_sort_key(field, is_descending=is_descending),
        order=f"Search {field}",
        is_descending=is_descending,
        arguments=arguments,
    )
    return {"Results": [{"TrainingJob": document} for document in page], "NextToken": token}


def _sort_key(name: str, *, is_descending: bool) -> Callable[[Document], list[object]]:
    kind = kind_of(name)
    if kind is PropertyKind.STRUCTURE:
        raise validation_error(f"SortBy cannot be {name}, which is a structure")
    rank_of_absent = -1 if is_descending else 2

    def key(document: Document) -> list[object]:
        value = next(iter(values_of(document, name)), None)
        if value is None:
            return [rank_of_absent, 0]
        number = seconds_in(value) if kind is PropertyKind.TIME else number_in(value)
        if kind is PropertyKind.TEXT or number is None:
            return [_RANK_OF_TEXTS, text_of(value)]
        return [_RANK_OF_NUMBERS, number]

    return key


def _expression(expression: Expression) -> Predicate:
    """Return the predicate of an expression; raise ApiError for what Search does not allow."""
    if sum(each.get("Operator") == "Contains" for each in _filters(expression)) > 1:
        raise validation_error("'CONTAINS' operator usage limit of 1 exceeded.")
    return _combined(expression)


def _filters(expression: Expression) -> Iterator[Expression]:
    """Yield all filters of an expression, however deep."""
    yield from expression.get("Filters", ())
    for nested in expression.get("NestedFilters", ()):
        yield from nested["Filters"]
    for part in expression.get("SubExpressions", ()):
        yield from _filters(part)


def _combined(expression: Expression) -> Predicate:
    """Return True for a document that matches all parts, or any of them (Operator)."""
    parts = [
        *map(_filter, expression.get("Filters", ())),
        *map(_nested, expression.get("NestedFilters", ())),
        *map(_combined, expression.get("SubExpressions", ())),
    ]
    combine = any if expression.get("Operator") == "Or" and parts else all
    return lambda document: combine(matches(document) for matches in parts)


def _nested(nested: Expression) -> Predicate:
    """Return True for a list of which one entry matches all filters."""
    name = nested["NestedPropertyName"]
    check_list_property(name)
    for each in nested["Filters"]:
        if not each["Name"].startswith(f"{name}."):
            raise validation_error(f"The nested filter {each['Name']} is not below {name}")
    parts = [_filter(each) for each in nested["Filters"]]
    return lambda document: any(
        all(matches({name: [entry]}) for matches in parts) for entry in document.get(name, ())
    )


def _filter(each: Expression) -> Predicate:
    name, operator = each["Name"], each.get("Operator", "Equals")
    kind = kind_of(name)
    if operator in _EXISTENCE:
        return lambda document: bool(values_of(document, name)) == (operator == "Exists")
    if "Value" not in each:
        raise validation_error(f"The operator {operator} of the filter {name} needs a Value")
    matches = _comparison(name, kind, operator, each["Value"])
    if operator == "NotEquals":
        return lambda document: all(map(matches, values_of(document, name)))
    return lambda document: any(map(matches, values_of(document, name)))


def _comparison(name: str, kind: PropertyKind, operator: str, wanted: str) -> Predicate:
    """Return the comparison of one value with the wanted one."""
    is_allowed = {
        PropertyKind.TEXT: operator not in _ORDERINGS,
        PropertyKind.NUMBER: operator not in _TEXT_ONLY,
        PropertyKind.TIME: operator not in _TEXT_ONLY,
        PropertyKind.ANY: True,
        PropertyKind.STRUCTURE: False,
    }
    if not is_allowed[kind]:
        raise validation_error(
            f"The operator {operator} is not supported for the {kind.value} property {name}"
        )
    if kind is PropertyKind.TEXT or operator in _TEXT_ONLY:
        return _text_comparison(operator, wanted)
    number = seconds_in(wanted) if kind is PropertyKind.TIME else number_in(wanted)
    if number is None and kind is PropertyKind.ANY and operator not in _ORDERINGS:
        return _text_comparison(operator, wanted)
    if number is None:
        form = "an ISO 8601 date-time" if kind is PropertyKind.TIME else "a number"
        raise validation_error(f"The Value of the filter {name}, {wanted}, is not {form}")
    if kind is PropertyKind.ANY and wanted.lstrip("+-").isdigit():
        return _number_comparison(operator, number, _whole)
    return _number_comparison(
        operator, number, seconds_in if kind is PropertyKind.TIME else number_in
    )


def _text_comparison(operator: str, wanted: str) -> Predicate:
    if operator == "Contains":
        return lambda found: wanted in text_of(found)
    if operator == "In":
        return lambda found: text_of(found) in wanted.split(",")
    return lambda found: (text_of(found) == wanted) == (operator == "Equals")


def _number_comparison(
    operator: str, wanted: float, read: Callable[[Any], float | None]
) -> Predicate:
    """Compare numbers; a text that is none equals no number and is in no order."""
    if operator in _ORDERINGS:
        compare = _ORDERINGS[operator]
        return lambda found: (number := read(found)) is not None and compare(number, wanted)
    return lambda found: (read(found) == wanted) == (operator == "Equals")


def _whole(value: object) -> float | None:
    """Read a hyperparameter as an integer: Search does so when the Value is one."""
    number = number_in(value)
    return None if number is None else float(int(number))


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

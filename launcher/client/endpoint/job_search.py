"""Search: expressions over the properties of training jobs, as SearchExpression defines them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from launcher.client.endpoint.listing import cut_page, refuse_token
from launcher.client.endpoint.responses import validation_error
from launcher.client.endpoint.search_property import (
    Document,
    PropertyKind,
    check_list_property,
    kind_of,
    number_in,
    seconds_in,
    text_of,
    values_of,
)

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

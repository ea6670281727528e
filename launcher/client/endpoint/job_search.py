"""Search: expressions over the fields of training jobs, as SearchExpression defines them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from launcher.client.endpoint.api_error import validation_error
from launcher.client.endpoint.listing import cut_page

Document = Mapping[str, Any]
Value = float | str

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda found, wanted: found == wanted,
    "NotEquals": lambda found, wanted: found != wanted,
    "GreaterThan": lambda found, wanted: found > wanted,
    "GreaterThanOrEqualTo": lambda found, wanted: found >= wanted,
    "LessThan": lambda found, wanted: found < wanted,
    "LessThanOrEqualTo": lambda found, wanted: found <= wanted,
}


def search_jobs(documents: Iterable[Document], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of records that a Search request asks for; newest first by default."""
    if arguments["Resource"] != "TrainingJob":
        raise validation_error(
            f"launcher endpoint searches TrainingJob only, not {arguments['Resource']}"
        )
    expression = arguments.get("SearchExpression", {})
    found = [document for document in documents if _matches(document, expression)]
    field = arguments.get("SortBy", "LastModifiedTime")
    page, token = cut_page(
        found,
        key=lambda document: str(property_of(document, field) or ""),
        is_descending=arguments.get("SortOrder", "Descending") == "Descending",
        arguments=arguments,
    )
    return {"Results": [{"TrainingJob": document} for document in page], "NextToken": token}


def _matches(document: Document, expression: Mapping[str, Any]) -> bool:
    """Return True if a document matches all parts of an expression, or any of them (Operator)."""
    parts = [
        *(_matches_filter(document, each) for each in expression.get("Filters", ())),
        *(_matches_nested(document, each) for each in expression.get("NestedFilters", ())),
        *(_matches(document, each) for each in expression.get("SubExpressions", ())),
    ]
    return any(parts) if expression.get("Operator") == "Or" and parts else all(parts)


def _matches_nested(document: Document, nested: Mapping[str, Any]) -> bool:
    """Return True if one entry of a list matches all filters, whose names begin with the list's."""
    name = nested["NestedPropertyName"]
    return any(
        all(_matches_filter({name: entry}, each) for each in nested["Filters"])
        for entry in document.get(name, ())
    )


def _matches_filter(document: Document, each: Mapping[str, Any]) -> bool:
    found = property_of(document, each["Name"])
    operator: str = each.get("Operator", "Equals")
    wanted: str = each.get("Value", "")
    if operator in ("Exists", "NotExists"):
        return (found is not None) == (operator == "Exists")
    if found is None:
        return operator == "NotEquals"
    if operator == "Contains":
        return wanted in str(found)
    if operator == "In":
        return str(found) in wanted.split(",")
    left, right = _value(found), _value(wanted)
    if type(left) is not type(right):
        left, right = str(found), wanted
    return _COMPARISONS[operator](left, right)


def property_of(document: Document, name: str) -> Any:
    """Return a property by dotted path ("Tags.team", "HyperParameters.lr"); None if absent."""
    value: Any = document
    for part in _path(name):
        if isinstance(value, list):
            value = {entry["Key"]: entry["Value"] for entry in value if "Key" in entry}
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _path(name: str) -> list[str]:
    """Split a dotted path; keys of tags and hyperparameters may contain dots themselves."""
    head, dot, rest = name.partition(".")
    return [head, rest] if head in ("Tags", "HyperParameters") and dot else name.split(".")


def _value(value: Any) -> Value:
    """Convert to a comparable value: numbers as such, times to seconds, all else to text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.timestamp()
    for read in (float, datetime.fromisoformat):
        with contextlib.suppress(ValueError, TypeError):
            found = read(value)
            return found.timestamp() if isinstance(found, datetime) else found
    return str(value)

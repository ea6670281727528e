"""ListTrainingJobs: filters, orders and pages of job documents, and the tokens between pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from launcher.client.endpoint.responses import ApiError, validation_error

Document = Mapping[str, Any]
_PAGE_SIZE = 10
_SORT_FIELDS = {
    "Name": "TrainingJobName",
    "CreationTime": "CreationTime",
    "Status": "TrainingJobStatus",
}


def list_jobs_page(documents: Iterable[Document], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of summaries that a ListTrainingJobs request asks for.

    The newest come first unless the request says otherwise. StatusEquals filters the page that
    would result without it. Both follow the operation's documentation.
    """
    wanted = [document for document in documents if _is_wanted(document, arguments)]
    field = _SORT_FIELDS[arguments.get("SortBy", "CreationTime")]
    is_descending = arguments.get("SortOrder", "Descending") == "Descending"
    page, token = cut_page(
        wanted,
        key=lambda document: _sortable(document[field]),
        order=f"ListTrainingJobs {field}",
        is_descending=is_descending,
        arguments=arguments,
    )
    status = arguments.get("StatusEquals")
    chosen = [each for each in page if status in (None, each["TrainingJobStatus"])]
    return {"TrainingJobSummaries": chosen, "NextToken": token}


def cut_page(
    documents: Iterable[Document],
    *,
    key: Callable[[Document], Any],
    order: str,
    is_descending: bool,
    arguments: Mapping[str, Any],
) -> tuple[Sequence[Document], str | None]:
    """Return one page in an order, and the token of the next page.

    The token holds the key and name of the last document, so jobs that appear or disappear between
    pages do not matter. order: names the list and its key, for which alone its tokens are valid.
    """
    order = f"{order} {'descending' if is_descending else 'ascending'}"

    def sort_key(document: Document) -> list[Any]:
        return [key(document), document["TrainingJobName"]]

    ordered = sorted(documents, key=sort_key, reverse=is_descending)
    if token := arguments.get("NextToken"):
        last = decode_token(token, order)
        try:
            ordered = [each for each in ordered if _is_after(sort_key(each), last, is_descending)]
        except TypeError as error:  # keys of other types
            raise invalid_token() from error
    page = ordered[: arguments.get("MaxResults", _PAGE_SIZE)]
    is_more = len(ordered) > len(page)
    return page, encode_token(order, sort_key(page[-1])) if is_more else None


def _is_wanted(document: Document, arguments: Mapping[str, Any]) -> bool:
    """Apply every filter but StatusEquals; local jobs have no warm pools and no training plans."""
    if "WarmPoolStatusEquals" in arguments or "TrainingPlanArnEquals" in arguments:
        return False
    return arguments.get("NameContains", "") in document["TrainingJobName"] and all(
        _is_between(
            document[field].timestamp(),
            arguments.get(f"{field}After"),
            arguments.get(f"{field}Before"),
        )
        for field in ("CreationTime", "LastModifiedTime")
    )


def _is_between(moment: float, after: float | None, before: float | None) -> bool:
    return (after is None or moment > after) and (before is None or moment < before)


def _sortable(value: object) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


def _is_after(sort_key: list[object], last: list[object], is_descending: bool) -> bool:
    return sort_key < last if is_descending else sort_key > last


def encode_token(order: str, sort_key: list[object]) -> str:
    """Return the token for the page after a document.

    order: names the list and how it is sorted; a token of another list or order is refused.
    """
    return base64.urlsafe_b64encode(json.dumps([order, sort_key]).encode()).decode()


def decode_token(token: str, order: str) -> list[object]:
    """Return the sort key that a token holds; raise ApiError for one that `order` never gave."""
    try:
        found, sort_key = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, RecursionError) as error:
        raise invalid_token() from error
    if found != order or not isinstance(sort_key, list):
        raise invalid_token()
    return sort_key


def refuse_token(arguments: Mapping[str, object]) -> None:
    """Raise ApiError for any token: this list fits on one page, so none was ever given."""
    if arguments.get("NextToken"):
        raise invalid_token()


def invalid_token() -> ApiError:
    """Return the error for a token that was not given by the same list."""
    return validation_error("Invalid NextToken")

"""NextToken: where the next page of a list begins."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from launcher.client.endpoint.api_error import ApiError, validation_error


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

"""The error for a response that no AWS gives: a proxy's page, a truncated one, or other fields."""

from __future__ import annotations

from launcher.errors import Unreachable

NETWORK_FIX = "check the network, the proxy, and AWS_ENDPOINT_URL if it is set"


def foreign_response(operation: str, what: str) -> Unreachable:
    """Return the error: what answers an operation is not AWS, or the response was damaged."""
    return Unreachable(
        f"what answers is not AWS, or its response is truncated: {operation} {what}\n"
        f"  fix: {NETWORK_FIX}"
    )

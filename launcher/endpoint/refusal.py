"""An answer that says no, as AWS says it: a code, a message, an HTTP status."""

from __future__ import annotations


class Refusal(Exception):
    """Raised by whoever refuses a request; the application makes an answer of it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(f"{code}: {message}")


def invalid(message: str) -> Refusal:
    """ValidationException: what SageMaker answers to nearly everything that is wrong."""
    return Refusal("ValidationException", message)

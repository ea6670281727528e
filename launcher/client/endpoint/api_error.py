"""A refused request, in AWS's terms: a code, a message, an HTTP status."""

from __future__ import annotations


class Refusal(Exception):
    """Raised when a request is refused; the application turns it into a response."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(f"{code}: {message}")


def invalid(message: str) -> Refusal:
    """Return a ValidationException, SageMaker's answer to nearly everything that is wrong."""
    return Refusal("ValidationException", message)

"""An error response in AWS's terms: a code, a message, an HTTP status."""

from __future__ import annotations


class ApiError(Exception):
    """Raised for a request that the endpoint rejects; the application turns it into a response."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(f"{code}: {message}")


def validation_error(message: str) -> ApiError:
    """Return a ValidationException, SageMaker's code for nearly every invalid request."""
    return ApiError("ValidationException", message)

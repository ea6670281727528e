"""Responses and refusals: JSON 1.1 for documents, each service's own form for errors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

from launcher.shared import printable

REQUEST_ID = "x-amzn-RequestId"
_JSON = "application/x-amz-json-1.1"
#: How each service that answers in XML wraps an error; STS uses IAM's form.
_ERROR = "<Code>{code}</Code><Message>{message}</Message>"
_XML_FORMS = {
    "s3": f"<Error>{_ERROR}<RequestId>{{id}}</RequestId></Error>",
    "ec2": f"<Response><Errors><Error>{_ERROR}</Error></Errors>"
    "<RequestID>{id}</RequestID></Response>",
    "iam": f"<ErrorResponse><Error><Type>Sender</Type>{_ERROR}</Error>"
    "<RequestId>{id}</RequestId></ErrorResponse>",
}


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


_XML_FORMS["sts"] = _XML_FORMS["iam"]


def document(content: Mapping[str, object]) -> Response:
    """Return the response for an operation's output."""
    return _response(json.dumps(content), 200, _JSON, str(uuid.uuid4()))


def error_response(error: ApiError, service: str) -> Response:
    """Return the response for an error, in the form that the service's clients read."""
    request_id = str(uuid.uuid4())
    if form := _XML_FORMS.get(service):
        message = escape(printable(error.message, keep_styles=False))
        text = form.format(code=error.code, message=message, id=request_id)
        return _response(text, error.status, "text/xml", request_id)
    content = {"__type": error.code, "message": error.message}
    return _response(json.dumps(content), error.status, _JSON, request_id)


def internal_error(service: str, problem: str | None = None) -> ApiError:
    """Return the error that AWS sends for its own faults; problem: why, if it is known."""
    code = "InternalError" if service == "s3" else "InternalFailure"
    message = (
        problem or "The endpoint failed; its output has the traceback under the id of this request."
    )
    return ApiError(code, message, 500)


def _response(text: str, status: int, content_type: str, request_id: str) -> Response:
    return Response(
        text,
        status=status,
        content_type=content_type,
        headers={REQUEST_ID: request_id, "x-amz-request-id": request_id},
    )

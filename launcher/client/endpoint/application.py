"""The WSGI application: SageMaker's training jobs are ours, a few other services are moto's."""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from moto.core.request import Request
from werkzeug.wrappers import Response

from launcher.client.endpoint import responses
from launcher.client.endpoint.api_error import Refusal
from launcher.client.endpoint.credential import credential_of
from launcher.client.endpoint.gate import Gate
from launcher.client.endpoint.log_operations import Logs
from launcher.client.endpoint.operations import Operations
from launcher.client.endpoint.s3_gateway import Objects
from launcher.client.endpoint.signature import Scope
from launcher.client.endpoint.throttle import Throttle

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

#: moto has more; these are the ones that users of training jobs need.
_MOTO_SERVICES = frozenset(
    {"s3", "logs", "iam", "sts", "ec2", "ecr", "kms", "servicequotas", "pricing", "monitoring"}
)
#: The default content type of curl and others; moto would parse it as a form and store nothing.
_FORM = "application/x-www-form-urlencoded"
#: S3's content type for an object uploaded without one.
_OCTETS = "binary/octet-stream"


class Application:
    """Admits a request, throttles it, and routes it to the service that it names."""

    def __init__(
        self,
        *,
        gate: Gate,
        throttle: Throttle,
        operations: Operations,
        logs: Logs,
        objects: Objects,
        moto: Wsgi,
    ) -> None:
        self._gate = gate
        self._throttle = throttle
        self._operations = operations
        self._logs = logs
        self._objects = objects
        self._moto = moto

    def __call__(self, environ: dict[str, object], start_response: object) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        service = ""
        try:
            credential = credential_of(request)
            service = credential.scope.service
            self._gate.admit(request, credential)
            response = self._answer(request, credential.scope)
        except Refusal as refused:
            response = responses.refusal(refused, service)
        except Exception:  # noqa: BLE001 (the client gets AWS's form for any fault here)
            response = responses.refusal(responses.unexpected(service), service)
            _tell(f"request {response.headers[responses.REQUEST_ID]}:\n{traceback.format_exc()}")
        body: Iterable[bytes] = response(environ, start_response)
        return body

    def _answer(self, request: Request, scope: Scope) -> Response:
        operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self._throttle.spend(operation, scope.region)
        if scope.service == "sagemaker":
            return self._sagemaker(request, operation, scope.region)
        if scope.service not in _MOTO_SERVICES:
            raise Refusal(
                "UnknownOperationException",
                f"launcher endpoint has no {scope.service}: it has sagemaker (training jobs) and "
                f"{', '.join(sorted(_MOTO_SERVICES))}",
            )
        if scope.service == "logs":
            return self._cloudwatch_logs(request, operation, scope.region)
        if scope.service == "s3":
            return self._s3(request)
        return self._ask_moto(request.environ)

    def _ask_moto(self, environ: dict[str, object]) -> Response:
        try:
            return Response.from_app(self._moto, environ)
        except NotImplementedError as error:  # such as SimulatePrincipalPolicy
            # Clients continue without an operation that answers with this code.
            raise Refusal("AccessDenied", f"launcher endpoint does not have it: {error}") from error

    def _sagemaker(self, request: Request, operation: str, region: str) -> Response:
        arguments = _arguments(request)
        name = arguments.get("TrainingJobName") or arguments.get("ResourceArn") or ""
        try:
            response = responses.document(self._operations.answer(operation, arguments, region))
            _tell(f"{operation} {region} {name}")
        except Refusal as refused:
            _tell(f"{operation} {region} {name}: {refused.code}: {refused.message}")
            raise
        return response

    def _cloudwatch_logs(self, request: Request, operation: str, region: str) -> Response:
        with self._logs.prepared(operation, _arguments(request), region) as arguments:
            return self._ask_moto(_with_body(request, json.dumps(arguments).encode()))

    def _s3(self, request: Request) -> Response:
        environ, body = request.environ, b""
        if request.method == "POST":
            body = environ["wsgi.input"].read(request.content_length or 0)
            environ = _with_body(request, body)
        elif request.mimetype == _FORM:
            environ = {**environ, "CONTENT_TYPE": _OCTETS}
        response = self._ask_moto(environ)
        is_part = "partNumber" in request.args  # a part leaves the object itself unchanged
        if response.status_code < 300 and not is_part:
            path = environ["REQUEST_URI"].partition("?")[0]
            is_copy = "X-Amz-Copy-Source" in request.headers
            self._objects.save(request.method, path, body, is_copy=is_copy)
        return response


def _arguments(request: Request) -> dict[str, object]:
    body = request.environ["wsgi.input"].read(request.content_length or 0)
    try:
        arguments = json.loads(body or b"{}")
    except ValueError as error:
        raise Refusal("SerializationException", f"the body is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise Refusal("SerializationException", "the body is not a JSON object")
    return arguments


def _with_body(request: Request, body: bytes) -> dict[str, object]:
    return {
        **request.environ,
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
    }


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

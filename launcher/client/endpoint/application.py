"""The WSGI application: SageMaker's training jobs are ours, a few other services are moto's."""

from __future__ import annotations

import io
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, cast

from moto.core.request import Request
from moto.server import DomainDispatcherApplication
from werkzeug.wrappers import Response

from launcher.client.endpoint import responses
from launcher.client.endpoint.authenticator import Authenticator
from launcher.client.endpoint.cloudwatch_operations import CloudWatchMetrics, Logs
from launcher.client.endpoint.operations import Operations
from launcher.client.endpoint.rate_limiter import RateLimiter
from launcher.client.endpoint.responses import ApiError
from launcher.client.endpoint.s3_gateway import Objects
from launcher.client.endpoint.signature import Scope, credential_of
from launcher.client.home import disk_problem
from launcher.shared import printable

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

#: moto has more; these are the ones that users of training jobs need.
_MOTO_SERVICES = frozenset(
    {"s3", "logs", "iam", "sts", "ec2", "ecr", "kms", "servicequotas", "pricing", "monitoring"}
)
#: The codes for invalid requests of the services that answer in XML.
_NOT_UNDERSTOOD = {
    "s3": "InvalidRequest",
    "ec2": "InvalidParameterValue",
    **dict.fromkeys(("iam", "sts", "monitoring"), "ValidationError"),
}
#: The default content type of curl and others; moto would parse it as a form and store nothing.
_FORM = "application/x-www-form-urlencoded"
#: S3's content type for an object uploaded without one.
_OCTETS = "binary/octet-stream"


#: Where a request has its signed scope.
SCOPE = "launcher.scope"


class Application:
    """Authenticates a request, applies rate limits, and routes it to its service."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        rate_limiter: RateLimiter,
        operations: Operations,
        logs: Logs,
        metrics: CloudWatchMetrics,
        objects: Objects,
        moto: Wsgi,
    ) -> None:
        self._authenticator = authenticator
        self._rate_limiter = rate_limiter
        self._operations = operations
        self._logs = logs
        self._metrics = metrics
        self._objects = objects
        self._moto = moto

    def __call__(self, environ: dict[str, object], start_response: object) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        service = ""
        try:
            credential = credential_of(request)
            service = credential.scope.service
            request.environ.update(prepared_body(environ, service))
            self._authenticator.authenticate(request, credential)
            request.environ[SCOPE] = credential.scope
            response = self._route(request, credential.scope)
        except ApiError as error:
            response = responses.error_response(error, service)
        except TimeoutError as error:
            response = responses.error_response(
                ApiError("RequestTimeout", f"The rest of the request did not come: {error}"),
                service,
            )
        except Exception as error:  # noqa: BLE001 (the client gets AWS's form for any fault here)
            problem = disk_problem(error) if isinstance(error, OSError) else None
            response = responses.error_response(responses.internal_error(service, problem), service)
            _log(f"request {response.headers[responses.REQUEST_ID]}:\n{traceback.format_exc()}")
        body: Iterable[bytes] = response(environ, start_response)
        return body

    def _route(self, request: Request, scope: Scope) -> Response:
        operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self._rate_limiter.acquire(operation, scope.region)
        if scope.service == "sagemaker":
            return self._sagemaker(request, operation, scope.region)
        if scope.service not in _MOTO_SERVICES:
            raise ApiError(
                "UnknownOperationException",
                f"launcher endpoint has no {scope.service}: it has sagemaker (training jobs) and "
                f"{', '.join(sorted(_MOTO_SERVICES))}",
            )
        if scope.service == "logs":
            return self._cloudwatch_logs(request, operation, scope.region)
        if scope.service == "monitoring":
            self._metrics.publish(scope.region)
        if scope.service == "s3":
            return self._s3(request)
        return self._call_moto(request.environ)

    def _call_moto(self, environ: dict[str, object]) -> Response:
        """Return moto's answer; raise ApiError for a request that it does not understand."""
        scope = cast("Scope", environ[SCOPE])
        try:
            response = Response.from_app(self._moto, environ)
        except NotImplementedError as error:  # such as SimulatePrincipalPolicy
            # Clients continue without an operation that answers with this code.
            raise ApiError(
                "AccessDenied", f"launcher endpoint does not support this: {error}"
            ) from error
        except OSError:  # of the disk, or of the connection
            raise
        except Exception as error:
            _log(f"moto: {traceback.format_exc()}")
            raise _not_understood(scope.service, f"{type(error).__name__}: {error}") from error
        if response.status_code >= 400 and not _has_aws_form(response, environ["REQUEST_METHOD"]):
            text = response.get_data(as_text=True) or f"status {response.status_code}"
            raise _not_understood(scope.service, text, min(response.status_code, 499))
        return _with_visible_controls(response)

    def _sagemaker(self, request: Request, operation: str, region: str) -> Response:
        arguments = _arguments(request)
        name = arguments.get("TrainingJobName") or arguments.get("ResourceArn") or ""
        try:
            response = responses.document(self._operations.execute(operation, arguments, region))
            _log_call(f"{operation} {region} {name}")
        except ApiError as error:
            _log_call(f"{operation} {region} {name}: {error.code}: {error.message}")
            raise
        except RecursionError as error:  # Search: expressions within expressions
            raise ApiError("SerializationException", "the body is nested too deeply") from error
        return response

    def _cloudwatch_logs(self, request: Request, operation: str, region: str) -> Response:
        with self._logs.publish_for(operation, _arguments(request), region) as arguments:
            return self._call_moto(_with_body(request, json.dumps(arguments).encode()))

    def _s3(self, request: Request) -> Response:
        environ, body = request.environ, b""
        if request.method == "POST":
            body = environ["wsgi.input"].read(request.content_length or 0)
            environ = _with_body(request, body)
        elif request.mimetype == _FORM:
            environ = {**environ, "CONTENT_TYPE": _OCTETS}
        response = self._call_moto(environ)
        is_part = "partNumber" in request.args  # a part leaves the object itself unchanged
        if response.status_code < 300 and not is_part:
            path = environ["REQUEST_URI"].partition("?")[0]
            is_copy = "X-Amz-Copy-Source" in request.headers
            self._objects.save(request.method, path, body, is_copy=is_copy)
        return response


def _has_aws_form(response: Response, method: object) -> bool:
    """Return True for an error that a client can read; moto has pages without a word, too."""
    start = response.get_data().lstrip()[:2]
    is_document = start[:1] == b"{" or (start[:1] == b"<" and start not in (b"<!", b"<h"))
    return response.status_code < 500 and (is_document or method == "HEAD")


def _not_understood(service: str, why: str, status: int = 400) -> ApiError:
    """Return the error for a request of which moto makes nothing."""
    code = _NOT_UNDERSTOOD.get(service, "ValidationException")
    text = f"launcher endpoint does not understand this request: {why[:500]}"
    return ApiError(code, text, status)


def _with_visible_controls(response: Response) -> Response:
    """Return moto's response; in an error in XML, control characters of names are made visible."""
    if response.status_code >= 400 and response.mimetype.endswith("xml"):
        response.set_data(printable(response.get_data(as_text=True), keep_styles=False))
    return response


def _arguments(request: Request) -> dict[str, object]:
    body = request.environ["wsgi.input"].read(request.content_length or 0)
    try:
        arguments = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise ApiError("SerializationException", f"the body is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise ApiError("SerializationException", "the body is not a JSON object")
    return arguments


def _with_body(request: Request, body: bytes) -> dict[str, object]:
    return {
        **request.environ,
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
    }


def _log_call(line: str) -> None:
    """Log one line, whatever a name or a message has in it."""
    _log(line.replace("\n", "\\n"))


def _log(line: str) -> None:
    print(printable(line, keep_styles=False), file=sys.stderr, flush=True)


class MotoServices(DomainDispatcherApplication):  # type: ignore[misc]  # moto's types are not read
    """Dispatches by the signed scope.

    By itself moto goes by the path too: to its own /moto-api, to /latest/meta-data/, and for URLs
    that are signed in their query to any service that a path or a body names.
    """

    def get_application(self, environ: dict[str, Any]) -> Any:
        """Return the application of the service that the request was signed for."""
        scope: Scope = environ[SCOPE]
        backend = self.get_backend_for_host(f"{scope.service}.{scope.region}.amazonaws.com")
        with self.lock:
            if backend not in self.app_instances:
                self.app_instances[backend] = self.create_app(backend)
            return self.app_instances[backend]


#: S3's limit of one request. Source: API reference, PutObject.
_LARGEST = 5 << 30
_PIECE = 1 << 20
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(;[^\r\n]*)?\r?\n")
_LONGEST_LINE = 8192


def prepared_body(environ: Mapping[str, object], service: str) -> dict[str, object]:
    """Return the changes of a WSGI environment for its body; raise ApiError for an invalid one.

    Whoever reads a body that came in chunks has its content and its length.
    """
    if str(environ.get("HTTP_TRANSFER_ENCODING", "")).strip().lower() != "chunked":
        if service == "s3" and _length(environ) > _LARGEST:  # others allow much less
            raise _too_large()
        return {}
    source = cast("IO[bytes]", environ["wsgi.input"])
    body = io.BytesIO()  # moto keeps objects in memory, too
    while size := _chunk_size(source):
        if body.tell() + size > _LARGEST:
            raise _too_large()
        _copy(source, body, size)
        if source.readline(_LONGEST_LINE).strip():
            raise _incomplete("a chunk is longer than it says")
    while source.readline(_LONGEST_LINE).strip():
        pass  # trailers, which nobody reads
    length = body.tell()
    body.seek(0)
    return {
        "wsgi.input": body,
        "wsgi.input_terminated": False,
        "CONTENT_LENGTH": str(length),
        "HTTP_TRANSFER_ENCODING": "",
    }


def _length(environ: Mapping[str, object]) -> float:
    text = str(environ.get("CONTENT_LENGTH") or "")
    return float(text) if text.isascii() and text.isdecimal() else 0.0


def _chunk_size(source: IO[bytes]) -> int:
    match = _CHUNK_SIZE.fullmatch(source.readline(_LONGEST_LINE))
    if match is None:
        raise _incomplete("a chunk begins with its size")
    return int(match[1], 16)


def _copy(source: IO[bytes], body: IO[bytes], size: int) -> None:
    while size:
        piece = source.read(min(size, _PIECE))
        if not piece:
            raise _incomplete("the last chunk did not come")
        body.write(piece)
        size -= len(piece)


def _incomplete(what: str) -> ApiError:
    return ApiError("IncompleteBody", f"The body is not what its head promises: {what}.")


def _too_large() -> ApiError:
    return ApiError("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")

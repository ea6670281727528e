"""A front that stands before moto's server and does to calls what networks and AWS do to them."""

import http.client
import json
import socket
import struct
import sys
import threading
from collections import Counter, deque
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server"}


@dataclass(frozen=True)
class Refuse:
    """Answer with an error of AWS, as its JSON services write it; the call is not passed on."""

    code: str
    message: str = "no"
    status: int = 400


@dataclass(frozen=True)
class Cut:
    """Reset the connection instead of an answer; after=True: when moto has done what was asked."""

    after: bool


@dataclass(frozen=True)
class Page:
    """Answer with what no AWS says; the call is not passed on."""

    content: str
    status: int = 200


@dataclass(frozen=True)
class Answer:
    """Answer as AWS's JSON services do; the call, which moto lacks, is not passed on."""

    fields: dict


@dataclass(frozen=True)
class Hold:
    """Pass the call on, and answer only when the front is closed."""


@dataclass(frozen=True)
class Alter:
    """Pass the call on, and answer with other fields than moto does."""

    fields: dict


@dataclass
class Call:
    operation: str
    path: str
    headers: dict
    body: bytes
    fault: object = None


@dataclass
class Front:
    """calls: all that came, in order; `meet` says what the next calls of an operation meet."""

    address: str
    calls: list = field(default_factory=list)
    faults: dict = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closed: threading.Event = field(default_factory=threading.Event)
    #: Changes moto's answers, as (call, answer) -> answer, before any fault does.
    rewrite: object = None
    #: Returns the fault that the next call of an operation meets, where `meet` has set none.
    draw: object = None
    #: Operations that moto lacks, answered with nothing, as StopTrainingJob is by AWS.
    lacking: frozenset = frozenset()

    def meet(self, operation, *faults):
        self.faults[operation] = deque(faults)

    def take(self, call):
        with self.lock:
            waiting = self.faults.get(call.operation)
            call.fault = waiting.popleft() if waiting else self.draw and self.draw(call.operation)
            self.calls.append(call)
        return call.fault

    def count(self, operation=None):
        counted = Counter(call.operation for call in self.calls)
        return counted if operation is None else counted[operation]

    def of(self, operation):
        return [call for call in self.calls if call.operation == operation]


def altered(answer, fault):
    status, headers, content = answer
    return status, headers, json.dumps({**json.loads(content), **fault.fields}).encode()


class FrontServer(ThreadingHTTPServer):
    """Says nothing of clients that leave before their answer is whole."""

    request_queue_size = 128  # else a client of a busy machine finds no connection

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(moto_address):
    """A running front and its server; the caller shuts the server down."""
    moto = urlsplit(moto_address).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        front = None

        def handle_any(self):
            call = self.read_call()
            fault = self.front.take(call)
            if hasattr(fault, "respond"):  # of fault_kinds.py
                fault.respond(self, call)
            elif isinstance(fault, Refuse):
                self.answer_refusal(fault)
            elif isinstance(fault, Page):
                self.answer(fault.status, [("Content-Type", "text/html")], fault.content.encode())
            elif isinstance(fault, Answer):
                content = json.dumps(fault.fields).encode()
                self.answer(200, [("Content-Type", "application/x-amz-json-1.1")], content)
            elif isinstance(fault, Cut) and not fault.after:
                self.reset()
            else:
                answer = self.pass_on(call)
                if isinstance(fault, Hold):
                    self.front.closed.wait(60)
                if isinstance(fault, Cut | Hold):
                    self.reset()
                else:
                    self.answer(*(altered(answer, fault) if isinstance(fault, Alter) else answer))

        def read_call(self):
            if self.path.startswith("http://"):  # as clients ask a proxy
                self.path = "/" + self.path.split("/", 3)[3]
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            return Call(self.operation(body), self.path, dict(self.headers), body)

        def operation(self, body):
            """ "CreateTrainingJob", "GetRole", or of S3 "PUT", "HEAD", "COPY"."""
            if target := self.headers.get("X-Amz-Target"):
                return target.rpartition(".")[2]
            if self.headers.get("Content-Type", "").startswith("application/x-www-form"):
                return parse_qs(body.decode())["Action"][0]
            return "COPY" if self.headers.get("x-amz-copy-source") else self.command

        def pass_on(self, call):
            if call.operation in self.front.lacking:
                return 200, [("Content-Type", "application/x-amz-json-1.1")], b""
            with closing(http.client.HTTPConnection(moto, timeout=60)) as connection:
                connection.request(self.command, self.path, call.body, dict(self.headers))
                response = connection.getresponse()
                answer = response.status, response.getheaders(), response.read()
            return self.front.rewrite(call, answer) if self.front.rewrite else answer

        def answer(self, status, headers, content):
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            given = {name.lower(): value for name, value in headers}
            is_head = self.command == "HEAD"
            self.send_header(
                "Content-Length", given.get("content-length", "0") if is_head else len(content)
            )
            self.end_headers()
            if not is_head:
                self.wfile.write(content)

        def answer_refusal(self, fault):
            content = json.dumps({"__type": fault.code, "message": fault.message}).encode()
            if "X-Amz-Target" not in self.headers:
                text = f"<Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
                if self.headers.get("Content-Type", "").startswith("application/x-www-form"):
                    text = f"<ErrorResponse>{text}</ErrorResponse>"
                content = text.encode()
            self.answer(fault.status, [("x-amzn-RequestId", "request-1")], content)

        def reset(self):
            """No answer, and no polite end either: the client sees a connection reset."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            self.wfile = open("/dev/null", "wb")  # noqa: SIM115, PTH123 (what is flushed at the end)

        def log_message(self, *_):
            pass

    for command in ("GET", "PUT", "POST", "HEAD", "DELETE"):
        setattr(Handler, f"do_{command}", Handler.handle_any)
    server = FrontServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Handler.front = Front(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return Handler.front, server

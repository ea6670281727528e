"""What is fuzzed: each reader of bytes from outside, its corpus, and the errors that it may raise.

A target takes any bytes. It returns, or raises one of its own errors; anything else is a finding.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

#: What the readers of event lines read of a job.
_DESCRIPTION: Any = {
    "TrainingJobName": "a",
    "TrainingJobStatus": "Failed",
    "SecondaryStatus": "Failed",
    "AlgorithmSpecification": {"MetricDefinitions": [{"Name": "loss", "Regex": "loss=(\\S+)"}]},
}
#: Seeds that are no other test's: a file is one input.
CORPORA = Path(__file__).parent / "corpora"
_TESTS = Path(__file__).parents[1]
#: Where the tests of the wire, of jobs and of partitions keep what they send.
sys.path += [str(_TESTS / part) for part in ("kit", "data", "request")]


@dataclass(frozen=True, kw_only=True)
class FuzzTarget:
    """A reader. seeds: inputs that it reads; modules: whose branches guide a fuzzer."""

    read: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    modules: tuple[str, ...]


def yaml_document(data: bytes) -> None:
    from launcher import JobSpec, SpecError

    with contextlib.suppress(SpecError):
        JobSpec.from_yaml("\n" + data.decode("utf-8", "replace"))


def wire_frame(data: bytes) -> None:
    from batches import TYPES
    from test_wire_fuzz import receive

    from launcher.data.batches import Assembly, wire
    from launcher.errors import DataError

    with contextlib.suppress(DataError):
        header, payload = receive(data[1:], checksums=bool(data[:1] > b"\x7f"))
        tree, arrays = wire.unpack(payload, header.content_bytes)
        Assembly(tensors=None, types=TYPES).rebuild(tree, arrays)


def control_message(data: bytes) -> None:
    from launcher.data.control import messages
    from launcher.errors import DataError
    from launcher.runtime import jsonl_socket

    with contextlib.suppress(DataError):
        messages.decode(jsonl_socket.decode(data))
    with contextlib.suppress(DataError):
        if data:
            messages.cut(data)
    with contextlib.suppress(DataError):
        messages.decode_plan(jsonl_socket.decode(data))


def event_line(data: bytes) -> None:
    from launcher.client.jobs import (
        HostGroup,
        JobScreen,
        LogLine,
        MetricReader,
        sentence,
        summarise,
    )
    from launcher.shared import printable

    group = HostGroup(name="train", instance_type="ml.m5.large", hosts=("algo-1",))
    screen = JobScreen([group])
    figures = MetricReader(_DESCRIPTION, own=True)
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for number, text in enumerate(lines):
        line = LogLine(group="train", host="algo-1", text=text, time=float(number))
        shown = printable(line.readable)
        assert not any(code in shown for code in "\x00\x07\x08\x9b\x9d\u202e"), shown
        if (event := line.event) is not None:
            sentence(*event)
        screen.take(line)
        list(figures.read(line))
    summarise(_DESCRIPTION, None, lines)


def job_document(data: bytes) -> None:
    from launcher.errors import ContractError
    from launcher.shared import JobDocument

    with contextlib.suppress(ContractError):
        JobDocument.from_json(data.decode("utf-8", "replace"))


def partition_file(data: bytes) -> None:
    from launcher.errors import ParallelError
    from launcher.shared import PartitionFile

    with contextlib.suppress(ParallelError):
        PartitionFile.from_json(data.decode("utf-8", "replace"))


def checkpoint_manifest(data: bytes) -> None:
    from launcher.errors import ParallelError
    from launcher.parallel.checkpoints import NAME, find_problem

    folder = _folder() / "step-3"
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(data)
    with contextlib.suppress(ParallelError):
        find_problem(folder)


def endpoint_http(data: bytes) -> None:
    """Bytes of a connection; after a first byte "s" the body of a signed request.

    Whatever comes, the endpoint answers or closes the connection, and answers the next one.
    """
    endpoint = _endpoint()
    asked = endpoint.signed(data[1:]) if data[:1] == b"s" else data
    with (
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=20) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(asked)
        with contextlib.suppress(OSError):  # ENOTCONN: it has hung up before
            connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert not answer.startswith(b"HTTP/1.1 500"), answer


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="launcher-fuzz-"))


@cache
def _endpoint() -> SimpleNamespace:
    """An endpoint in this process, so that its branches are seen."""
    from launcher.client.endpoint import Setup, open_endpoint

    setup = Setup(root=_folder() / "endpoint", port=0, rates={}, local={"isolation": "process"})
    opened = open_endpoint(setup)
    endpoint = opened.__enter__()  # until the process ends
    threading.Thread(target=endpoint.server.serve_forever, daemon=True).start()
    port = endpoint.server.server_address[1]
    sign = _signer(endpoint.url, endpoint.access_key.id, endpoint.access_key.secret)
    return SimpleNamespace(port=port, signed=sign, opened=opened)


def _signer(url: str, key_id: str, secret: str) -> Callable[[bytes], bytes]:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    def signed(said: bytes) -> bytes:
        operation, _, body = said.partition(b" ")
        name = "".join(filter(str.isalnum, operation.decode("ascii", "replace"))) or "x"
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"SageMaker.{name}",
        }
        request = AWSRequest("POST", f"{url}/", headers=headers, data=body)
        SigV4Auth(Credentials(key_id, secret), "sagemaker", "us-east-1").add_auth(request)
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        size = f"Content-Length: {len(body)}\r\nHost: {url[7:]}\r\nConnection: close\r\n"
        return f"POST / HTTP/1.1\r\n{head}{size}\r\n".encode() + body

    return signed


# Seeds -------------------------------------------------------------------------------------------


def _seed_files(*patterns: str) -> Callable[[], list[bytes]]:
    """Files that other tests keep."""
    return lambda: [
        path.read_bytes() for pattern in patterns for path in sorted(_TESTS.glob(pattern))
    ]


def _frames() -> list[bytes]:
    from test_wire_fuzz import FRAMES

    return [bytes([255 * checked]) + frame for checked, all_ in FRAMES.items() for frame in all_]


def _messages() -> list[bytes]:
    from test_wire_fuzz import LINES, PLANS, RECORDS

    return [*LINES, *RECORDS, *PLANS]


def _corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPORA / name).glob("*"))]


def _seeds_of(name: str, more: Callable[[], list[bytes]]) -> Callable[[], Sequence[bytes]]:
    return lambda: [*_corpus(name), *more()]


def _target(
    read: Callable[[bytes], None], more: Callable[[], list[bytes]], *modules: str
) -> tuple[str, FuzzTarget]:
    name = read.__name__
    return name, FuzzTarget(read=read, seeds=_seeds_of(name, more), modules=modules)


def _targets() -> Iterator[tuple[str, FuzzTarget]]:
    yield _target(yaml_document, _seed_files("spec/bad/*.yaml"), "launcher.client.spec")
    yield _target(wire_frame, _frames, "launcher.data.batches")
    yield _target(control_message, _messages, "launcher.data.control", "launcher.runtime")
    logs = "compatibility/*/home/jobs/*/logs/*.log"
    yield _target(event_line, _seed_files(logs), "launcher.shared", "launcher.client.jobs")
    documents = "compatibility/*/home/storage/*/code/launcher.json"
    yield _target(job_document, _seed_files(documents), "launcher.shared")
    partitions = _seed_files("spec/bad/partition.json", "compatibility/*/partition.json")
    yield _target(partition_file, partitions, "launcher.shared.partitions")
    manifests = _seed_files("compatibility/*/checkpoints/**/manifest.json")
    yield _target(checkpoint_manifest, manifests, "launcher.parallel.checkpoints.manifests")
    yield _target(endpoint_http, list, "launcher.client.endpoint")


TARGETS = dict(_targets())

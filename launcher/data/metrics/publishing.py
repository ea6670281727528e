"""Publish the dispatcher's metrics: periodic log events, and Prometheus' format over HTTP.

https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from launcher.data.metrics.metrics_file import Figures, Snapshot
from launcher.runtime import emit
from launcher.shared import judge_wait, observe

#: Seconds between the data_metrics events of a running job.
INTERVAL = 30.0
#: Seconds for a request to arrive, and for its answer to leave.
_REQUEST_TIMEOUT = 5.0
_REQUEST_LIMIT = 16 * 1024
_MAX_CLIENTS = 16


class Publisher:
    """Logs snapshots of the metrics and serves them over HTTP.

    group: the group that prepares data. address: where the metrics are served; None to serve none.
    """

    def __init__(
        self, snapshot: Callable[[], Snapshot], *, group: str, address: tuple[str, int] | None
    ) -> None:
        self._snapshot = snapshot
        self._group = group
        self._address = address

    async def run(self) -> None:
        """Publish until cancelled; call `publish_final` afterwards."""
        server = MetricsServer(lambda: render(self._snapshot()))
        serving = asyncio.create_task(server.serve(self._address)) if self._address else None
        try:
            while True:
                await asyncio.sleep(INTERVAL)
                self._log(self._snapshot(), final=False)
        finally:
            if serving is not None:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving

    def publish_final(self) -> None:
        """Log the totals, and the bottleneck where there was enough to judge by."""
        snapshot = self._snapshot()
        self._log(snapshot, final=True)
        rates = observe(hosts=snapshot.hosts, ranks=snapshot.ranks, receivers=snapshot.receivers)
        verdict = judge_wait(rates, self._group) if rates is not None else None
        if verdict is not None:
            emit("data_verdict", **verdict.fields())

    @staticmethod
    def _log(snapshot: Snapshot, *, final: bool) -> None:
        for fields in snapshot.event_fields():
            emit("data_metrics", **fields, final=final)


class MetricsServer:
    """A small HTTP/1.1 server that sends one response per connection.

    text: called for each request; returns the metrics.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._clients = 0

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until cancelled; if the port is unavailable, log that and return."""
        try:
            server = await asyncio.start_server(self._serve_client, *address, limit=_REQUEST_LIMIT)
        except OSError as error:
            emit("metrics_not_served", port=address[1], why=error.strerror or str(error))
            return
        async with server:
            emit("metrics_served", port=address[1])
            await server.serve_forever()

    async def _serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._clients += 1
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(self._respond(reader, writer), _REQUEST_TIMEOUT)
        except asyncio.CancelledError:
            return  # the server is stopping; asyncio before 3.12 would print this as an error
        finally:
            self._clients -= 1
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._clients > _MAX_CLIENTS:
            status, body = "503 Service Unavailable", ""
        else:
            status, body = self._content_for(await _request_line(reader))
        writer.write(_response(status, body))
        await writer.drain()

    def _content_for(self, line: list[bytes]) -> tuple[str, str]:
        if len(line) != 3 or not line[2].startswith(b"HTTP/1."):
            return "400 Bad Request", ""
        method, target, _ = line
        if target.partition(b"?")[0] != b"/metrics":
            return "404 Not Found", ""
        if method != b"GET":
            return "405 Method Not Allowed", ""
        return "200 OK", self._text()


async def _request_line(reader: asyncio.StreamReader) -> list[bytes]:
    """Read a request and return the words of its first line; none if no request arrived."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return []
    return head.partition(b"\r\n")[0].split(b" ")


def _response(status: str, body: str) -> bytes:
    content = (body or status + "\n").encode()
    allow = "Allow: GET\r\n" if status.startswith("405") else ""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n"
        f"{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + content


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "launcher_data_"


@dataclass(frozen=True)
class _Family:
    """One Prometheus metric: its key in the snapshot, its name, its type and its help text."""

    figure: str
    name: str
    kind: str
    help: str


_RANKS = (
    _Family("steps", "steps_total", "counter", "Batches that a rank has taken."),
    _Family("wait", "wait_seconds_total", "counter", "Seconds that a rank waited for batches."),
    _Family("total", "reading_seconds_total", "counter", "Seconds that a rank spent in epochs."),
    _Family("startup", "startup_seconds", "gauge", "Seconds until the very first batch."),
)
_HOSTS = (
    _Family("batches", "host_batches_total", "counter", "Batches that a host's workers sent."),
    _Family("bytes", "host_bytes_total", "counter", "Bytes that a host's workers sent."),
    _Family(
        "preparing", "host_preparing_seconds_total", "counter", "Seconds of preparing batches."
    ),
    _Family(
        "blocked",
        "host_blocked_seconds_total",
        "counter",
        "Seconds that workers were blocked by sending.",
    ),
    _Family(
        "elapsed", "host_worker_seconds_total", "counter", "Seconds since the workers started."
    ),
    _Family("cpu", "host_cpu_seconds_total", "counter", "CPU seconds of the workers."),
    _Family(
        "starved", "host_starved_seconds_total", "counter", "Seconds that workers waited for a CPU."
    ),
    _Family("workers", "host_workers", "gauge", "Workers that are connected."),
    _Family("leases", "host_leases", "gauge", "Batches leased to the workers."),
    _Family("unsent", "host_unsent_batches", "gauge", "Batches that wait to be sent."),
)
_RECEIVERS = (
    _Family("batches", "receiver_batches_total", "counter", "Batches that a train host received."),
    _Family("bytes", "receiver_bytes_total", "counter", "Bytes that a train host received."),
    _Family("cpu", "receiver_cpu_seconds_total", "counter", "CPU seconds of the receiver."),
    _Family("held", "receiver_held_bytes", "gauge", "Bytes of batches in its shared memory."),
    _Family(
        "high", "receiver_high_water_bytes", "gauge", "Peak bytes of batches in its shared memory."
    ),
    _Family("budget", "receiver_budget_bytes", "gauge", "data_service.prefetch_bytes."),
)
_DISPATCHER = (
    _Family("messages", "dispatcher_messages_total", "counter", "Control messages received."),
    _Family("leases", "dispatcher_leases_total", "counter", "Batches leased to workers."),
    _Family(
        "late_leases",
        "dispatcher_late_leases_total",
        "counter",
        "Late batches leased to a second worker.",
    ),
    _Family("lost_leases", "dispatcher_lost_leases_total", "counter", "Leases of lost workers."),
)


def render(snapshot: Snapshot) -> str:
    """Render all families with HELP and TYPE, and one line for each rank and stream, or host."""
    ranks = [({"rank": r, "stream": s}, figures) for (r, s), figures in snapshot.ranks.items()]
    parts: tuple[tuple[tuple[_Family, ...], _Samples], ...] = (
        (_RANKS, ranks),
        (_HOSTS, _by_host(snapshot.hosts)),
        (_RECEIVERS, _by_host(snapshot.receivers)),
        (_DISPATCHER, [({}, snapshot.dispatcher)]),
    )
    lines = [
        line
        for families, samples in parts
        for family in families
        for line in _render_family(family, samples)
    ]
    return "\n".join(lines) + "\n"


_Samples = list[tuple[dict[str, str], Figures]]


def _by_host(figures: Mapping[str, Figures]) -> _Samples:
    return [({"host": host}, each) for host, each in figures.items()]


def _render_family(family: _Family, samples: _Samples) -> Iterable[str]:
    name = _PREFIX + family.name
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {family.kind}"
    for labels, figures in samples:
        yield f"{name}{_labels(labels)} {float(figures.get(family.figure, 0.0))!r}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

"""Metrics in Prometheus' text format, version 0.0.4. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launcher.data.metrics.metrics_file import Figures, Snapshot

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

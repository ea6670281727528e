"""The logs and metrics of jobs in CloudWatch, brought up to date when they are read.

So what nobody reads is never published. What is published, and the positions, live in the memory of
one process (as all of moto's state does): each line is published once, also after a restart.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from moto.cloudwatch.models import Dimension, MetricDatum, cloudwatch_backends
from moto.logs.models import logs_backends

from launcher.client.endpoint.job_operations import JobRegistry
from launcher.client.sessions import (
    GROUP,
    NAMESPACE,
    JobFolder,
    JobRoot,
    LogEvent,
    RecordedMetric,
    bytes_before,
    log_streams,
    read_log,
    read_metrics,
    stream_bytes,
)
from launcher.errors import JobNotFound

#: Lines published at once: more than `read_log` reads at once, so that no line is read twice.
_MAX_LINES = 1_000_000

Arguments = dict[str, Any]
_DIMENSION = "TrainingJobName"


class Logs:
    """Publishes the lines of hosts as /aws/sagemaker/TrainingJobs, <job>/algo-N-<epoch>."""

    def __init__(self, root: Path, registry: JobRegistry, account: str) -> None:
        self._store = JobRoot(root)
        self._registry = registry
        self._account = account
        self._lock = threading.Lock()
        self._positions: dict[tuple[str, str], str] = {}

    @contextmanager
    def publish_for(self, operation: str, arguments: Arguments, region: str) -> Iterator[Arguments]:
        """Yield the arguments of an operation while its streams are current and nobody else reads.

        A prefix of FilterLogEvents, which moto does not support, becomes the names that it matches.
        """
        with self._lock:
            if operation == "DescribeLogGroups" and self._registry.names(region):
                logs_backends[self._account][region].ensure_log_group(GROUP)
            if GROUP in _groups_of(arguments):
                logs_backends[self._account][region].ensure_log_group(GROUP)
                for job in self._requested_jobs(arguments, region):
                    self._publish(job, region, arguments)
                prefix = arguments.get("logStreamNamePrefix")
                if operation == "FilterLogEvents" and isinstance(prefix, str):
                    arguments = self._without_prefix(arguments, region)
            yield arguments

    def delete_streams(self, job: str, region: str) -> None:
        """Drop the streams of a deleted job, as a later job of its name may reuse their names."""
        with self._lock:
            group = logs_backends[self._account][region].groups.get(GROUP)
            for key in [key for key in self._positions if key[0] == job]:
                del self._positions[key]
                if group:
                    group.streams.pop("/".join(key), None)

    def _requested_jobs(self, arguments: Arguments, region: str) -> Iterator[str]:
        """Yield the jobs whose streams a request may read."""
        wanted = _stream_names(arguments)
        begins = {name.partition("/") for name in ([wanted] if isinstance(wanted, str) else wanted)}
        for job, slash, _ in begins:
            if slash:
                entry = self._registry.read(job)
                yield from [job] if entry and entry.region == region else []
            else:
                yield from (name for name in self._registry.names(region) if name.startswith(job))

    def _publish(self, job: str, region: str, arguments: Arguments) -> None:
        backend = logs_backends[self._account][region]
        wanted = _stream_names(arguments)
        try:
            folder = self._store.find(job)
        except JobNotFound:
            return
        for stream in log_streams(folder):
            name = f"{job}/{stream.name}"
            if name.startswith(wanted) if isinstance(wanted, str) else name in wanted:
                backend.ensure_log_stream(GROUP, name)
                for events in self._new_events(folder, stream.name):
                    # Not the backend's put_log_events: it refuses lines over two weeks old.
                    backend.groups[GROUP].streams[name].put_log_events(
                        [_to_put_event(e) for e in events]
                    )

    def _new_events(self, folder: JobFolder, stream: str) -> Iterator[list[LogEvent]]:
        """Yield the new events of a stream since the last call, in pieces of bounded size."""
        key = (folder.name, stream)
        size = stream_bytes(folder, stream)
        # Later lines wait for the next request, since a host may print faster than we publish.
        while bytes_before(self._positions.get(key)) < size:
            position = self._positions.get(key)
            events, self._positions[key] = read_log(folder, stream, position, _MAX_LINES)
            if not events:
                return
            yield events

    def _without_prefix(self, arguments: Arguments, region: str) -> Arguments:
        rest = dict(arguments)
        prefix = rest.pop("logStreamNamePrefix")
        streams = logs_backends[self._account][region].groups[GROUP].streams
        names = [name for name in streams if name.startswith(prefix)]
        return {**rest, "logStreamNames": names or [prefix]}  # an empty list would mean all


def _groups_of(arguments: Mapping[str, Any]) -> list[str]:
    """Return the log groups that a request names, by name or by ARN; a query names several."""
    one = [arguments.get("logGroupName"), arguments.get("logGroupIdentifier")]
    several = [arguments.get("logGroupNames"), arguments.get("logGroupIdentifiers")]
    named = _texts([*one, *(group for groups in several for group in _listed(groups))])
    return [group.split(":log-group:", 1)[-1].removesuffix(":*") for group in named]


def _stream_names(arguments: Mapping[str, Any]) -> str | tuple[str, ...]:
    """Return the streams that a request names: a prefix, or whole names."""
    one, several = arguments.get("logStreamName"), arguments.get("logStreamNames")
    if one or several:
        return tuple(_texts([one] if one else _listed(several)))
    return str(arguments.get("logStreamNamePrefix") or "")


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _texts(values: Iterable[object]) -> list[str]:
    """Return the texts; what is none is no name, and moto refuses it."""
    return [value for value in values if isinstance(value, str) and value]


def _to_put_event(event: LogEvent) -> dict[str, object]:
    return {"timestamp": int(event.time * 1000), "message": event.text}


class CloudWatchMetrics:
    """Publishes the values of metric definitions, one data point for each match in a log."""

    def __init__(self, root: Path, registry: JobRegistry, account: str) -> None:
        self._store = JobRoot(root)
        self._registry = registry
        self._account = account
        self._lock = threading.Lock()
        self._positions: dict[str, int] = defaultdict(int)

    def publish(self, region: str) -> None:
        """Publish what the jobs of a region have measured since the last call."""
        with self._lock:
            for job in self._registry.names(region):
                try:
                    folder = self._store.find(job)
                except JobNotFound:
                    continue
                self._publish(folder, region)

    def delete(self, job: str, region: str) -> None:
        """Drop the metrics of a deleted job, as a later job may have its name."""
        own = Dimension(_DIMENSION, job)
        with self._lock:
            self._positions.pop(job, None)
            data = cloudwatch_backends[self._account][region].metric_data
            data[:] = [
                each for each in data if each.namespace != NAMESPACE or own not in each.dimensions
            ]

    def _publish(self, folder: JobFolder, region: str) -> None:
        data = cloudwatch_backends[self._account][region].metric_data
        while True:
            metrics, end = read_metrics(folder, self._positions[folder.name])
            if end == self._positions[folder.name]:
                return
            data += [_data_point(folder.name, metric) for metric in metrics]
            self._positions[folder.name] = end


def _data_point(job: str, metric: RecordedMetric) -> MetricDatum:
    return MetricDatum(
        NAMESPACE,
        metric["MetricName"],
        metric["Value"],
        [{"Name": _DIMENSION, "Value": job}],
        # moto's times are in UTC and naive.
        datetime.fromtimestamp(metric["Timestamp"], tz=timezone.utc).replace(tzinfo=None),
        "None",
    )

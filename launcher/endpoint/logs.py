"""The logs of jobs in CloudWatch: a stream is brought up to date whenever somebody asks for it.

So nothing is published that nobody reads. What was published, and how far, live and die in one
process (moto's memory is ours): each line is published once, also after a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moto.logs.models import logs_backends

from launcher.endpoint.registry import Registry
from launcher.errors import JobNotFound
from launcher.sessions.aws.logs import GROUP
from launcher.sessions.base import LogEvent
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.logs import log_streams, read_log
from launcher.sessions.local.store import Store

#: Lines that are published at once: more than are read at once, of which no line is read twice.
_PIECE = 1_000_000

Arguments = dict[str, Any]


class Logs:
    """Publishes what hosts have printed as /aws/sagemaker/TrainingJobs, <job>/algo-N-<epoch>."""

    def __init__(self, root: Path, registry: Registry, account: str) -> None:
        self._store = Store(root)
        self._registry = registry
        self._account = account
        self._lock = threading.Lock()
        self._positions: dict[tuple[str, str], str] = {}

    @contextmanager
    def prepared(self, operation: str, arguments: Arguments, region: str) -> Iterator[Arguments]:
        """The arguments of an operation, while what it reads is up to date and nobody else reads.

        A prefix of FilterLogEvents, which moto does not know, becomes the names that it means.
        """
        with self._lock:
            if _group_of(arguments) == GROUP:
                logs_backends[self._account][region].ensure_log_group(GROUP)
                for job in self._jobs_meant(arguments, region):
                    self._publish(job, region, arguments)
                if operation == "FilterLogEvents" and "logStreamNamePrefix" in arguments:
                    arguments = self._without_prefix(arguments, region)
            yield arguments

    def forget(self, job: str, region: str) -> None:
        """A job was deleted: another of its name may have streams of the same names."""
        with self._lock:
            group = logs_backends[self._account][region].groups.get(GROUP)
            for key in [key for key in self._positions if key[0] == job]:
                del self._positions[key]
                if group:
                    group.streams.pop("/".join(key), None)

    def _jobs_meant(self, arguments: Arguments, region: str) -> Iterator[str]:
        """The jobs whose streams a request may read."""
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
                    # Not put_log_events of the backend: that refuses lines of two weeks ago.
                    backend.groups[GROUP].streams[name].put_log_events([_put(e) for e in events])

    def _new_events(self, folder: JobFolder, stream: str) -> Iterator[list[LogEvent]]:
        """What a stream has had since the last time, in pieces of bounded size."""
        key = (folder.name, stream)
        size = folder.log(stream).stat().st_size
        # A local position is a number of bytes; most streams of a large job have nothing new. What
        # is printed meanwhile is the next request's: a host may print faster than we publish.
        while int(self._positions.get(key, -1)) < size:
            position = self._positions.get(key)
            events, self._positions[key] = read_log(folder, stream, position, _PIECE)
            if not events:
                return
            yield events

    def _without_prefix(self, arguments: Arguments, region: str) -> Arguments:
        rest = dict(arguments)
        prefix = rest.pop("logStreamNamePrefix")
        streams = logs_backends[self._account][region].groups[GROUP].streams
        names = [name for name in streams if name.startswith(prefix)]
        return {**rest, "logStreamNames": names or [prefix]}  # no names would mean all


def _group_of(arguments: Mapping[str, Any]) -> str | None:
    """The log group that a request means, by name or by ARN."""
    group: str | None = arguments.get("logGroupName") or arguments.get("logGroupIdentifier")
    if group and group.startswith("arn:"):
        return group.split(":log-group:", 1)[-1].removesuffix(":*")
    return group


def _stream_names(arguments: Mapping[str, Any]) -> str | tuple[str, ...]:
    """The streams that a request means: a prefix, or whole names."""
    if one := arguments.get("logStreamName"):
        return (one,)
    if several := arguments.get("logStreamNames"):
        return tuple(several)
    return str(arguments.get("logStreamNamePrefix") or "")


def _put(event: LogEvent) -> dict[str, Any]:
    return {"timestamp": int(event.time * 1000), "message": event.text}

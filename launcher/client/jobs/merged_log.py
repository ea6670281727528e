"""Merge the lines of all hosts of a job by time, each exactly once, in bounded memory.

Each stream is read in pages. All pages together hold at most `_BUFFERED_LINES`, and a stream's
next page is read once its last one has been shown. A line is shown once no older line can still
arrive. A session bounds how late a line may arrive (`log_delay_seconds`), so everything printed
before "now minus the delay" exists when the streams are listed and read after "now". The
cut-off is one moment for all streams, so a silent stream delays no other.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from launcher.client.sessions import LogEvent, LogStream
from launcher.errors import CloudError, LogNotFound
from launcher.shared import TEXT_MARK, format_event, parse_event

#: For all streams together. With 300 hosts, CloudWatch's 10 reads a second are 1,000 lines.
_BUFFERED_LINES = 30_000
_LARGEST_PAGE = 10_000
#: Identical pages in a row, with the same times, after which a stream counts as looping.
_MAX_IDENTICAL_PAGES = 10
#: The same for pages whose lines have one time, as of a program that prints a line without pause.
_MAX_PAGES_OF_ONE_TIME = 1000
#: Even a session with "no delay" reads the sizes of many logs one after the other.
_MIN_DELAY_SECONDS = 0.25


class LogSource(Protocol):
    """The part of a session that has logs (`launcher.client.sessions.base`)."""

    @property
    def log_delay_seconds(self) -> float:
        """Seconds until a printed line is readable, at most."""
        ...

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the log streams of the job's hosts."""
        ...

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return events of a stream from a position on, and the position after them."""
        ...


class MergedLog:
    """The lines that the hosts of a job print, from the start, each exactly once.

    groups: the group of each host; hosts: the hosts to read (None: all); buffered_lines: for all
    streams together. An error of the session may end any of the iterators; the next one continues
    with the next line. For streams that have vanished, all others are read before LogNotFound is
    raised.

    answers: how many answers the session has given.
    """

    def __init__(
        self,
        session: LogSource,
        job: str,
        groups: Mapping[str, str],
        *,
        hosts: Collection[str] | None = None,
        buffered_lines: int = _BUFFERED_LINES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._job = job
        self._groups = groups
        self._hosts = hosts
        self._buffered_lines = buffered_lines
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        #: The largest lead of a host's clock over ours so far, in seconds.
        self._clock_lead = 0.0
        self._vanished: dict[str, LogNotFound] = {}
        self.answers = 0

    def ready(self) -> Iterator[LogLine]:
        """Yield the lines before which no other line can still arrive."""
        # A single host prints in order, so there is nothing to wait for.
        delay = self._delay_seconds if len(self._hosts or self._groups) > 1 else 0.0
        until = self._clock() + self._clock_lead - delay
        return self._merge(until)

    def snapshot(self) -> Iterator[LogLine]:
        """Yield the lines printed so far, though older ones may still arrive.

        Ends even if the hosts continue to print.
        """
        return self._merge(self._clock(), is_ahead=True)

    def remaining(self) -> Iterator[LogLine]:
        """Yield all remaining lines, for hosts that have ended."""
        return self._merge(math.inf)

    @property
    def _delay_seconds(self) -> float:
        return max(self._session.log_delay_seconds, _MIN_DELAY_SECONDS)

    def _merge(self, until: float, *, is_ahead: bool = False) -> Iterator[LogLine]:
        """Yield lines until a time; is_ahead: by the hosts' clocks, as far as they are known."""
        self._vanished.clear()
        self._list_streams()
        page = max(1, min(_LARGEST_PAGE, self._buffered_lines // max(1, len(self._streams))))
        heads: list[tuple[float, int, _Stream]] = []
        for stream in self._streams.values():
            self._fill(stream, page)
            if stream.events:
                heads.append((stream.events[0].time, stream.number, stream))
        heapq.heapify(heads)
        while heads and heads[0][0] <= until + (self._clock_lead if is_ahead else 0.0):
            stream = heads[0][2]
            yield stream.pop()
            self._fill(stream, page)
            if stream.events:
                heapq.heapreplace(heads, (stream.events[0].time, stream.number, stream))
            else:
                heapq.heappop(heads)
        for error in self._vanished.values():
            raise error

    def _list_streams(self) -> None:
        listed = self._session.log_streams(self._job)
        self.answers += 1
        for stream in listed:
            is_wanted = self._hosts is None or stream.host in self._hosts
            if is_wanted and stream.name not in self._streams:
                group = self._groups.get(stream.host, "?")
                self._streams[stream.name] = _Stream(stream, group, len(self._streams))

    def _fill(self, stream: _Stream, page: int) -> None:
        if stream.events:
            return
        try:
            events, position = self._session.read_log(self._job, stream.name, stream.position, page)
        except LogNotFound as error:
            self._vanished[stream.name] = error
            return
        self.answers += 1
        stream.take(events, position)
        if events:
            self._clock_lead = max(self._clock_lead, events[-1].time - self._clock())


class _Stream:
    """A stream of one host: its read position, and the lines read but not shown yet.

    number: orders its lines among those of the same time.
    """

    def __init__(self, stream: LogStream, group: str, number: int) -> None:
        self.name = stream.name
        self.number = number
        self.position: str | None = None
        self.events: deque[LogEvent] = deque()
        self._host = stream.host
        self._group = group
        #: Of the positions so far, their hashes: a log of a million lines has hundreds of pages.
        self._seen: set[int] = set()
        self._last: list[LogEvent] = []
        self._same = 0

    def take(self, events: list[LogEvent], position: str) -> None:
        """Take a page; raise CloudError for positions or pages that repeat without an end."""
        if not events:
            self.position = position
            return
        self._same = self._same + 1 if events == self._last else 0
        is_at_once = events[0].time == events[-1].time
        most_same = _MAX_PAGES_OF_ONE_TIME if is_at_once else _MAX_IDENTICAL_PAGES
        if hash(position) in self._seen or self._same > most_same:
            raise CloudError(
                f"the log {self.name} repeats itself: what answers is not AWS, or is damaged\n"
                "  fix: check the network, the proxy, and AWS_ENDPOINT_URL if it is set"
            )
        self._seen.add(hash(position))
        self._last, self.position = events, position
        self.events.extend(events)

    def pop(self) -> LogLine:
        event = self.events.popleft()
        return LogLine(group=self._group, host=self._host, text=event.text, time=event.time)


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line that one host printed, without its end of line.

    time: when it was printed, in seconds since the epoch.
    """

    group: str
    host: str
    text: str
    time: float

    @cached_property
    def event(self) -> tuple[str, dict[str, Any]] | None:
        """Name and fields of an event line of Launcher's own; None for any other line."""
        return parse_event(self.text)

    @property
    def readable(self) -> str:
        """The text for a reader who already sees group and host beside it."""
        if self.belongs_to_event:
            return self.text[len(TEXT_MARK) :]
        event = self.event
        if event is None:
            return self.text
        name, fields = event
        shown = {key: value for key, value in fields.items() if key not in ("group", "host")}
        return format_event(name, **shown)

    @property
    def is_event(self) -> bool:
        """True for one of Launcher's own event lines."""
        return self.event is not None

    @property
    def belongs_to_event(self) -> bool:
        """True for a line of an event's text, such as the traceback of a rank that failed."""
        return self.text.startswith(TEXT_MARK)

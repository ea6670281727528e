"""The lines of all hosts of a job, merged by time; none is lost or repeated, in bounded memory.

Each stream is read in pages, so that all pages together have at most `_BUFFERED_LINES`, and a
stream's next page is read when its last one has been shown. A line is shown once no older line can
come any more: a session says how late a line may come (`log_delay_seconds`), so whatever was
printed before "now less the delay" is there when the streams are listed and read after "now". That
is one moment for all streams; a silent one holds nobody back.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping

from launcher.following.lines import LogLine
from launcher.following.source import Source
from launcher.sessions.base import LogEvent, LogStream

#: Of all streams together. With 300 hosts, CloudWatch's 10 reads a second are 1,000 lines.
_BUFFERED_LINES = 30_000
_LARGEST_PAGE = 10_000
#: What a session calls "no delay" still has the sizes of many logs looked at one after the other.
_LEAST_HOLD_SECONDS = 0.25


class MergedLog:
    """What the hosts of a job print, from the start; every line comes out once.

    groups: the group of each host; hosts: whose lines are wanted (None: everybody's);
    buffered_lines: of all streams together. An error of the session may end any of the iterators;
    the next one goes on with the next line.
    """

    def __init__(
        self,
        session: Source,
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
        #: How far a host's clock was seen to be ahead of ours, in seconds.
        self._ahead = 0.0

    def settled(self) -> Iterator[LogLine]:
        """The lines before which no other can come any more."""
        # One host prints in order, and there is nobody to wait for.
        hold = self._hold_seconds if len(self._hosts or self._groups) > 1 else 0.0
        until = self._clock() + self._ahead - hold
        return self._merge(lambda: until)

    def present(self) -> Iterator[LogLine]:
        """Also the lines before which others may come; it ends even if the hosts print on."""
        started = self._clock()
        return self._merge(lambda: started + self._ahead)

    def rest(self) -> Iterator[LogLine]:
        """All that there is, of hosts that have ended."""
        return self._merge(lambda: math.inf)

    @property
    def _hold_seconds(self) -> float:
        return max(self._session.log_delay_seconds, _LEAST_HOLD_SECONDS)

    def _merge(self, until: Callable[[], float]) -> Iterator[LogLine]:
        self._list_streams()
        page = max(1, min(_LARGEST_PAGE, self._buffered_lines // max(1, len(self._streams))))
        heads: list[tuple[float, int, _Stream]] = []
        for stream in self._streams.values():
            self._fill(stream, page)
            if stream.events:
                heads.append((stream.events[0].time, stream.number, stream))
        heapq.heapify(heads)
        while heads and heads[0][0] <= until():
            stream = heads[0][2]
            yield stream.pop()
            self._fill(stream, page)
            if stream.events:
                heapq.heapreplace(heads, (stream.events[0].time, stream.number, stream))
            else:
                heapq.heappop(heads)

    def _list_streams(self) -> None:
        for stream in self._session.log_streams(self._job):
            is_wanted = self._hosts is None or stream.host in self._hosts
            if is_wanted and stream.name not in self._streams:
                group = self._groups.get(stream.host, "?")
                self._streams[stream.name] = _Stream(stream, group, len(self._streams))

    def _fill(self, stream: _Stream, page: int) -> None:
        if stream.events:
            return
        events, stream.position = self._session.read_log(
            self._job, stream.name, stream.position, page
        )
        stream.events.extend(events)
        if events:
            self._ahead = max(self._ahead, events[-1].time - self._clock())


class _Stream:
    """A stream of a host: where it was read up to, and what was read and not shown yet.

    number: the place of its lines among those of the same time.
    """

    def __init__(self, stream: LogStream, group: str, number: int) -> None:
        self.name = stream.name
        self.number = number
        self.position: str | None = None
        self.events: deque[LogEvent] = deque()
        self._host = stream.host
        self._group = group

    def pop(self) -> LogLine:
        event = self.events.popleft()
        return LogLine(group=self._group, host=self._host, text=event.text, time=event.time)

"""Read the values of a job's metrics from the lines of its logs, in bounded time."""

from __future__ import annotations

import atexit
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from launcher.shared import is_wait_metric

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: A pattern that takes longer for one line, twice, is dropped (catastrophic backtracking). In
#: seconds of CPU of this thread: that a machine is paused or busy is no fault of a pattern.
MATCH_SECONDS = 1.0
#: Seconds of CPU of the process after which the line that is being matched is looked at.
_TICK = 0.1
#: Seconds until a timer of the program that has ended meanwhile.
_SOON = 1e-3


def metric_patterns(job: TrainingJobRequest) -> dict[str, str]:
    """Return the regular expression of each metric that the user of a job defined."""
    defined = job.get("AlgorithmSpecification", {}).get("MetricDefinitions", ())
    return {each["Name"]: each["Regex"] for each in defined if not is_wait_metric(each)}


def defines_wait(job: TrainingJobRequest) -> bool:
    """Return whether a job has Launcher's own metric, beside those of its user."""
    defined = job.get("AlgorithmSpecification", {}).get("MetricDefinitions", ())
    return any(map(is_wait_metric, defined))


class MetricMatcher:
    """Reads the values of a job's MetricDefinitions from lines.

    A metric is not read if Python's `re` does not accept its Regex, and no longer read once that
    twice takes more than MATCH_SECONDS for a line.

    names: default, all. notify: called with a sentence about a metric that is no longer read.
    """

    def __init__(
        self,
        job: TrainingJobRequest,
        notify: Callable[[str], None],
        names: Collection[str] | None = None,
    ) -> None:
        self._notify = notify
        self._patterns = {
            name: compiled
            for name, pattern in metric_patterns(job).items()
            if (names is None or name in names) and (compiled := _compiled(pattern))
        }

    @property
    def reads_lines(self) -> bool:
        """True if there is anything to read."""
        return bool(self._patterns)

    def values(self, line: str) -> Iterator[tuple[str, float]]:
        """Yield the metric and value of each match in a line, metric by metric."""
        for name, pattern in list(self._patterns.items()):
            try:
                values = metric_values(pattern, line)
            except TimeoutError:
                del self._patterns[name]
                self._notify(
                    f"the metric {name!r} is no longer read: its Regex twice takes more than "
                    f"{MATCH_SECONDS:.0f} s of CPU on a line of {len(line)} characters"
                )
                continue
            yield from ((name, value) for value in values)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return the compiled pattern; None if Python's `re` does not accept it."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def metric_values(pattern: re.Pattern[str], line: str) -> list[float]:
    """Return the numbers in the first group of each match of a metric's Regex.

    Raises TimeoutError for a pattern that twice takes more than MATCH_SECONDS, in the main thread.
    """
    try:
        return _LIMIT.keep(_numbers, pattern, line)
    except TimeoutError:
        return _LIMIT.keep(_numbers, pattern, line)


class _MatchLimit:
    """Bounds the CPU time of each match.

    Python's regular expressions check for signals while they backtrack, and only the main thread
    handles signals: another thread has no limit, and stops all others, as `re` holds the GIL.

    A timer for each line would take longer than most matches. So one that ticks serves them all,
    and ends at the first tick outside of a match, or with the program. Then the program's own
    handler and timer of SIGVTALRM, which hardly any has, are there again.
    """

    def __init__(self) -> None:
        self._thread = 0  # the main thread, while the timer ticks
        self._number = 0  # of the present match
        self._is_matching = False
        self._seen = (0, 0.0)  # the match at the last tick, and the CPU time of its first tick

    def keep(
        self,
        find: Callable[[re.Pattern[str], str], list[float]],
        pattern: re.Pattern[str],
        line: str,
    ) -> list[float]:
        """Return what is found; raise TimeoutError at the limit."""
        thread = threading.get_ident()
        if thread != threading.main_thread().ident:
            return find(pattern, line)
        self._number += 1
        self._is_matching = True  # from now on, no tick ends the timer
        try:
            if thread != self._thread:
                self._start(thread)
            return find(pattern, line)
        finally:
            self._is_matching = False

    def end(self) -> None:
        """End the timer while Python handles signals: later, a tick would kill the program."""
        if self._thread:
            self._stop()

    def forget(self) -> None:
        """Start again in a forked child, which has no timer."""
        self._thread = 0

    def _start(self, thread: int) -> None:
        self._handler = signal.signal(signal.SIGVTALRM, self._look)
        self._began = time.process_time()
        self._timer = signal.setitimer(signal.ITIMER_VIRTUAL, _TICK, _TICK)
        self._thread = thread

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a tick."""
        if not self._is_matching:
            self._stop()
            return
        number, since = self._seen
        now = time.thread_time()
        if number != self._number:
            self._seen = (self._number, now)
        elif now - since > MATCH_SECONDS:
            raise TimeoutError

    def _stop(self) -> None:
        self._thread = 0
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if self._handler not in (None, signal.SIG_DFL):  # by which a late tick kills the program
            signal.signal(signal.SIGVTALRM, self._handler)
        seconds, interval = self._timer
        if seconds:
            left = seconds - (time.process_time() - self._began)
            signal.setitimer(signal.ITIMER_VIRTUAL, max(left, _SOON), interval)


#: Of the process, as its timer is.
_LIMIT = _MatchLimit()
atexit.register(_LIMIT.end)
os.register_at_fork(after_in_child=_LIMIT.forget)


def _numbers(pattern: re.Pattern[str], line: str) -> list[float]:
    found = (_number(match) for match in pattern.finditer(line))
    return [value for value in found if value is not None]


def _number(match: re.Match[str]) -> float | None:
    try:
        return float(match[1])
    except (IndexError, TypeError, ValueError):  # no group, an empty one, or no number
        return None

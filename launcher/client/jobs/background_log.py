"""Read a job's lines in a thread: whatever logs do, a follower sees the job's state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue, SimpleQueue
from typing import TypeVar

from launcher.client.jobs.merged_log import LogLine, MergedLog
from launcher.errors import CloudError, LauncherError, Unreachable

Result = TypeVar("Result")

#: Lines that are handed over at once, and batches of them that may wait for the follower.
_BATCH, _WAITING = 500, 100
#: Seconds between two attempts to read logs that cannot be read: the first, and the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 10.0
#: Attempts after the job's end, for errors that do not pass by themselves.
_LAST_ATTEMPTS = 3
#: Seconds in which a thread that waits notices that nobody reads any more.
_CLOSE_SECONDS = 0.2


class BackgroundLog:
    """The lines of a log, read by a thread from the first `ready` on, until `close`.

    poll_seconds: between two readings. is_transient: returns True for an error that may pass.
    """

    def __init__(
        self, log: MergedLog, poll_seconds: float, is_transient: Callable[[CloudError], bool]
    ) -> None:
        self._log = log
        self._poll_seconds = poll_seconds
        self._is_transient = is_transient
        self._batches: Queue[list[LogLine]] = Queue(_WAITING)
        self._wake, self._is_over, self._is_closed = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._run, name="job log", daemon=True)
        self._bug: BaseException | None = None
        #: Why lines cannot be read at the moment; after `remaining`, why lines are missing.
        self.trouble: LauncherError | None = None

    def ready(self) -> Iterator[LogLine]:
        """Yield what has been read, without waiting for more."""
        self._start()
        with suppress(Empty):
            for _ in range(_WAITING):  # the caller looks at the job now and then
                yield from self._batches.get_nowait()
        self._raise_bug()

    def remaining(self, seconds: float, *, in_all: bool) -> Iterator[LogLine]:
        """Yield the remaining lines of hosts that have ended; `trouble` says if some are missing.

        seconds: how long to wait for logs; in_all: for all of them, or else for each answer.
        """
        self._is_over.set()
        self._wake.set()
        self._start()
        waited, answers = 0.0, self._log.answers
        while self._thread.is_alive() or not self._batches.empty():
            began = time.monotonic()
            try:
                batch = self._batches.get(timeout=min(_CLOSE_SECONDS, seconds))
            except Empty:
                batch = []
            waited += time.monotonic() - began
            if not in_all and self._log.answers != answers:
                waited, answers = 0.0, self._log.answers
            yield from batch
            if waited > seconds:
                missing = Unreachable(f"the logs were not read to their end in {waited:.0f} s")
                self.trouble = self.trouble or missing
                break
        self._raise_bug()

    def close(self) -> None:
        """Let the thread end; one that waits for an answer ends after it."""
        self._is_closed.set()
        self._wake.set()

    def _start(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def _raise_bug(self) -> None:
        if self._bug is not None:
            raise self._bug

    def _run(self) -> None:
        """Read until the end, or until errors after it do not pass."""
        pause, left = _FIRST_PAUSE_SECONDS, _LAST_ATTEMPTS
        while left and not self._is_closed.is_set():
            is_last = self._is_over.is_set()
            try:
                self._hand_over(self._log.remaining() if is_last else self._log.ready())
            except LauncherError as error:
                self.trouble = error
                left -= is_last and not self._may_pass(error)
                self._pause(pause if left else 0.0)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            except BaseException as error:  # noqa: BLE001 (raised in the follower's thread)
                self._bug = error
                return
            else:
                pause, self.trouble = _FIRST_PAUSE_SECONDS, None
                if is_last:
                    return
                self._pause(self._poll_seconds)

    def _may_pass(self, error: LauncherError) -> bool:
        return isinstance(error, CloudError) and self._is_transient(error)

    def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the job."""
        self._wake.wait(seconds)
        self._wake.clear()

    def _hand_over(self, lines: Iterator[LogLine]) -> None:
        batch: list[LogLine] = []
        try:
            for line in lines:
                batch.append(line)
                if len(batch) == _BATCH:
                    self._put(batch)
                    batch = []
        finally:  # those before an error have been read
            self._put(batch)

    def _put(self, batch: list[LogLine]) -> None:
        is_taken = not batch
        while not is_taken and not self._is_closed.is_set():
            with suppress(Full):
                self._batches.put(batch, timeout=_CLOSE_SECONDS)
                is_taken = True


def within(
    seconds: float, call: Callable[[], Result], progress: Callable[[], int] = lambda: 0
) -> Result:
    """Return the result of a call; raise Unreachable if it takes longer, and let it go on.

    progress: how far the call has come; one that comes further in time goes on.
    """
    outcomes: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((call(), None))
        except BaseException as error:  # noqa: BLE001 (raised in the caller's thread)
            outcomes.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    while True:
        before = progress()
        try:
            result, error = outcomes.get(timeout=seconds)
            break
        except Empty:
            if progress() == before:
                raise Unreachable(f"no answer in {seconds:.0f} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # that of the call, which has not raised

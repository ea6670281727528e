"""The output of the programs of a host: passed on to its log in whole lines, by one process.

Secrets are replaced in it as it is read, before anything else sees it.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from launcher.runtime.host import processes
from launcher.runtime.host.cluster import Cluster
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.log_lines import LogLines
from launcher.shared import EVENTS_VARIABLE, MaskedStream, own_mask

#: Bytes to remember; a FailureReason has 1,024 characters.
_REMEMBERED = 4096
#: The pipe's size. The kernel grants a user 64 MiB in all and then single pages.
_PIPE_BYTES = 256 * 1024
#: Seconds between two reads: a program that prints 100,000 lines/s wakes us 100 times, not 100,000.
_PAUSE_SECONDS = 0.01
#: Seconds between two reports of an open line, to a platform that shows them and to a log.
_SHOWN_SECONDS, _LOGGED_SECONDS = 0.5, 60.0
#: Seconds in which the rest of a bar follows, which tqdm writes in parts.
_UNDECIDED_SECONDS = 0.1
_REPORTED_LENGTH = 200
_CLOSED = -1


_PORT_TAKEN = "address already in use"
_PORT_WHY = "the hosts of this job share one network"
_PORT_FIX = "run it with isolation network, or bind LAUNCHER_HOST_ADDRESS"


class Output:
    """The pipe that a program prints to.

    source: its name in reports of an open line. watch: called with the last lines whenever the
    program has printed.

    `write_end` belongs to the program. It is closed here once the program has it, so the pipe ends
    when the program and everything it started have ended.
    """

    def __init__(self, source: str = "", watch: Callable[[str], None] = lambda _: None) -> None:
        self._read_end, self.write_end = os.pipe()
        self._prepare(source, watch)

    def _prepare(self, source: str, watch: Callable[[str], None] = lambda _: None) -> None:
        self._watch = watch
        with contextlib.suppress(OSError, AttributeError):  # the user has too many large pipes
            fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._last = b""
        self._masked = MaskedStream(own_mask())
        self._lines = LogLines()
        self._open_line = _OpenLine(source)
        self._thread = threading.Thread(target=self._forward, name="output", daemon=True)

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[bytes]:
        """Start a program that prints here, as `processes.start` does, and forward what it prints.

        Raises OSError when there is no such program.
        """
        child = processes.start(
            command, environment=environment, folder=folder, output=self.write_end
        )
        self.follow()
        return child

    def follow(self) -> None:
        """Start forwarding; call it once the program has started."""
        os.close(self.write_end)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once the program and all that it started have ended, and all is forwarded."""
        return not self._thread.is_alive()

    def last_lines(self) -> str:
        """Return the last printed lines, the first of which may be cut."""
        return (self._last + self._lines.open_text).decode(errors="replace")

    def drain(self, timeout: float = 0.5) -> None:
        """Wait up to `timeout` s for the rest; a living program may hold the pipe open."""
        self._thread.join(timeout)

    def _forward(self) -> None:
        """Forward whole lines, and report one that stays open."""
        while chunk := self._read():
            self._take(chunk)
            self._open_line.report(self._lines.open_text)
            self._watch(self.last_lines())
            time.sleep(_PAUSE_SECONDS)
        self._pass_on(self._lines.go_on(self._masked.close()) + self._lines.close())
        self._open_line.report(b"")
        os.close(self._read_end)

    def _take(self, chunk: bytes) -> None:
        held, text = self._masked.held, self._masked.add(chunk)
        if held and text.startswith(held):  # it was no part of a secret
            self._pass_on(self._lines.go_on(held))
            text = text.removeprefix(held)
        if text:
            self._pass_on(self._lines.add(text))

    def _read(self) -> bytes:
        while self._open_line.is_unreported or self._lines.is_undecided:
            undecided = self._lines.is_undecided
            wait = _UNDECIDED_SECONDS if undecided else _SHOWN_SECONDS
            if select.select([self._read_end], [], [], wait)[0]:
                break
            if undecided:
                self._pass_on(self._lines.decide())
            self._open_line.report(self._lines.open_text)
        return os.read(self._read_end, _PIPE_BYTES)

    def _pass_on(self, lines: bytes) -> None:
        if lines:
            self._last = (self._last + lines)[-_REMEMBERED:]
            write_log(lines)


class _OpenLine:
    """Reports of a line that a program has not ended, such as a progress bar.

    Each is an event `progress` with the line's text, and "" once it has ended.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._text = self._reported = b""
        self._next = 0.0
        self._gap = _SHOWN_SECONDS if EVENTS_VARIABLE in os.environ else _LOGGED_SECONDS

    @property
    def is_unreported(self) -> bool:
        """True while the reports lag behind the line."""
        return self._text != self._reported

    def report(self, text: bytes) -> None:
        """Report the line if its text has changed and the last report is old enough."""
        if not self._text and text:
            self._next = max(self._next, time.monotonic() + _SHOWN_SECONDS)
        self._text = text
        is_due = time.monotonic() >= self._next or not text
        if not self.is_unreported or not is_due:
            return
        self._reported = text
        self._next = time.monotonic() + self._gap
        shown = text.decode(errors="replace")[:_REPORTED_LENGTH]
        emit("progress", source=self._source, text=shown)


class NamedOutput(Output):
    """A named pipe, for programs that others start on behalf of this host."""

    def __init__(self, path: Path, source: str = "") -> None:
        os.mkfifo(path)
        self._read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else blocks for a writer
        self.write_end = os.open(path, os.O_WRONLY)
        os.set_blocking(self._read_end, True)
        self._prepare(source)

    def follow(self) -> None:
        """Start forwarding; a program is not needed yet."""
        self._thread.start()

    def drain(self, timeout: float = 0.5) -> None:
        """Accept no new programs, and wait up to `timeout` s for what is left in the pipe."""
        if self.write_end != _CLOSED:
            os.close(self.write_end)
            self.write_end = _CLOSED
        super().drain(timeout)


def drain_all(outputs: Iterable[Output], timeout: float = 0.5) -> None:
    """Wait up to `timeout` s, in all, for the rest of several outputs."""
    deadline = time.monotonic() + timeout
    for output in outputs:
        output.drain(max(0.0, deadline - time.monotonic()))


def rank_pipe(reports: Path, local_rank: int) -> Path:
    """Return the named pipe of one rank of this host."""
    return reports / f"output-{local_rank}"


def print_to(pipe: Path) -> None:
    """Let this process print to a named pipe; raises OSError where nobody reads it."""
    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)


def print_whole_lines() -> None:
    """Make each print() of this process one write, so that lines do not mix.

    Hosts run Python unbuffered. Then the newline is a separate write, and another line can appear
    before it: of another process, or of another thread on stderr.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def write_log(text: bytes) -> None:
    """Write whole lines to this host's log, which is the stdout of its first process."""
    with contextlib.suppress(OSError):  # the log has no reader; the program must not block
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def hint_of_taken_port(cluster: Cluster, printed: str) -> str:
    """Return what to do about a taken port, where hosts share a network; else an empty text."""
    is_shared = len(cluster.addresses) > 1 and _PORT_TAKEN in printed.lower()
    return f" ({_PORT_WHY}: {_PORT_FIX})" if is_shared else ""


class TakenPortNotice:
    """Logs the hint once, as a program may wait for ever instead of failing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._is_given = False

    def __call__(self, printed: str) -> None:
        """Look at the last lines of a program."""
        if not self._is_given and hint_of_taken_port(self._cluster, printed):
            self._is_given = True
            emit("port_taken", why=_PORT_WHY, fix=_PORT_FIX)

"""Show a running job: its programs' output and, below it on a terminal, its state."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import click

from launcher.client.cli.screen.ctrl_c import defer_ctrl_c
from launcher.client.cli.screen.line_printer import LinePrinter
from launcher.client.cli.screen.verb_output import wants_colours
from launcher.client.jobs import Job, JobScreen, LogLine, ShownState, StateChange
from launcher.client.show import shortened
from launcher.shared import printable

if TYPE_CHECKING:
    from rich.live import Live

    from launcher.shared import TrainingJobDescription


#: Seconds between two lines about a job's state where there is no terminal to show it on.
_SENTENCE_SECONDS = 60.0
#: Seconds that what is printed may wait, so that many lines are written at once.
_FLUSH_SECONDS = 0.1
#: Seconds until a rank's error is shown although the job goes on: some thread may keep it alive.
_FAILURE_SECONDS = 60.0


class JobView:
    """Shows a job on stderr while it is followed; a context manager.

    What its programs print stays. On a terminal the state of the job follows it, and is drawn anew
    in place; elsewhere a line now and then has it.

    description: the job's, as it is now.
    is_quiet: only the state of the job is shown, and nothing that its programs print but the lines
        that they have not ended.
    """

    def __init__(
        self,
        job: Job,
        description: TrainingJobDescription,
        *,
        verbose: bool = False,
        is_quiet: bool = False,
        stream_is_terminal: bool | None = None,
    ) -> None:
        self._screen = JobScreen.of(job, description)
        self._verbose = verbose
        self._is_quiet = is_quiet
        self._print_line = LinePrinter(self._screen.groups, self._write, verbose=verbose)
        self._live = live_display() if is_terminal(stream_is_terminal) else None
        self._waiting: list[str] = []
        self._flushed = self._spoke = time.monotonic()
        self._failed_at: float | None = None
        self._place_notes = job.session.place_notes
        self._noted = len(self._place_notes(description))

    def __enter__(self) -> JobView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, and remove the state of the job from the terminal.

        Lines that follow are printed as on any stream.
        """
        try:
            self._flush()
        finally:  # Ctrl-C may come meanwhile
            live, self._live = self._live, None
            if live is not None:
                live.stop()

    def show_line(self, line: LogLine) -> None:
        """Take a line of a host."""
        self._screen.take(line)
        is_in_summary = line.belongs_to_event and not self._verbose  # a traceback
        if not self._is_quiet and not is_in_summary:
            self._print_line(line)

    def show_state(self, state: StateChange) -> None:
        """Take a change of the job's state."""
        if self._live is None or self._verbose:
            self._write(str(state))

    def show_notice(self, notice: str) -> None:
        """Take a notice that the job is idle or that the platform does not respond."""
        self._write(printable(f"({notice})"))

    def show_description(self, now: TrainingJobDescription) -> None:
        """Take the job's description, after each poll, and show its state and new notes."""
        notes = self._place_notes(now)
        for note in notes[self._noted :]:
            if note not in now.get("LocalLosses", ()):  # which the summary has
                self._write(printable(f"note: {note}"))
        self._noted = len(notes)
        self._tell_of_failure()
        self._flush()
        live = self._live
        if live is not None:
            from rich.text import Text

            lines = terminal_lines(self._screen.shown(now), live.console.width)
            with _ctrl_c_after():
                live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
        elif time.monotonic() - self._spoke > _SENTENCE_SECONDS:
            self._write(f"({printable(self._screen.shown(now).sentence, keep_styles=False)})")

    def _tell_of_failure(self) -> None:
        """Show what a rank has raised if the job does not end."""
        failure = self._screen.failure
        if failure is None:
            self._failed_at = None
            return
        self._failed_at = self._failed_at or time.monotonic()
        if time.monotonic() - self._failed_at > _FAILURE_SECONDS:
            self._screen.failure = None
            self._write(printable(f"warning: {failure}; its process has not ended yet"))

    def _write(self, text: str) -> None:
        self._spoke = time.monotonic()
        if self._live is None:
            click.echo(text, err=True)
            return
        self._waiting.append(text)
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        """Write the waiting lines above the state, which rich draws again below them."""
        self._flushed = time.monotonic()
        with _ctrl_c_after():
            live, lines = self._live, self._waiting.copy()
            self._waiting.clear()  # the list stays: a line may be on its way into it
            text = "\n".join(lines)
            if lines and live is not None:
                live.console.out(text if wants_colours() else click.unstyle(text), highlight=False)
            elif lines:  # a Ctrl-C has closed the view while the last of them was taken
                click.echo(text, err=True)


@contextmanager
def _ctrl_c_after() -> Iterator[None]:
    """Handle a Ctrl-C after the block: what is half drawn is drawn over what a handler prints."""
    with defer_ctrl_c() as is_pressed:
        yield
    if is_pressed():
        signal.raise_signal(signal.SIGINT)


def is_terminal(given: bool | None = None) -> bool:
    """Return whether stderr is a terminal on which the cursor can move."""
    is_one = sys.stderr.isatty() if given is None else given
    return is_one and os.environ.get("TERM", "dumb") != "dumb"


def live_display() -> Live:
    """Return what draws lines on stderr anew in place; the terminal keeps none of them."""
    from rich.console import Console  # rich is slow to import
    from rich.live import Live

    console = Console(stderr=True, highlight=False, force_terminal=True)
    return Live(
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )


def terminal_lines(shown: ShownState, width: int) -> list[str]:
    """Return the lines that a terminal shows of a job, each at most `width` characters."""
    open_lines = (
        f"{line.group}/{line.host} | {printable(line.text, keep_styles=False).strip()}"
        for line in shown.open_lines
    )
    own = (printable(text, keep_styles=False) for text in (shown.head, *shown.groups))
    return [*(shortened(text, width) for text in own), *(_cut(text, width) for text in open_lines)]


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size  # rich is slow to import

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"

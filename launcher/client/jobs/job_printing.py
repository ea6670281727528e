"""Print a job's lines, states and notices while it is followed; notebooks show its state."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.event_sentences import sentence
from launcher.client.jobs.failure_report import failure_of
from launcher.client.jobs.group_hosts import host_groups
from launcher.client.jobs.job_metrics import JobMetrics, sparkline
from launcher.client.jobs.job_screen import JobScreen
from launcher.client.jobs.metric_records import MetricRecord, final_metrics
from launcher.client.jobs.summary import model_uri
from launcher.client.jobs.summary_layout import summary_text
from launcher.client.sessions import metric_patterns
from launcher.client.show import escaped, notes_html, readable, short_number
from launcher.errors import LauncherError
from launcher.shared import printable

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.client.jobs.job_follower import StateChange
    from launcher.client.jobs.merged_log import LogLine
    from launcher.shared import TrainingJobDescription


#: SDK v2's values of `logs`, and whether they print. It prints its rules' states in any case.
_PRINTS = {"All": True, "Training": True, "Rules": False, "None": False}


#: The summary has columns, and the pages of exported notebooks give `pre` the font of their text.
_PRE = '<pre style="font-family: monospace">'
#: Seconds between two drawings.
_PERIOD_SECONDS = 1.0
#: Launcher's own figures by which a job without metric definitions is drawn: the first that it has.
_FIGURES = ("train/loss", "host/cpu")


def prints_logs(logs: bool | str | None) -> bool:
    """Return whether SDK v2's `logs` asks for the lines of all hosts.

    Raises LauncherError for an unknown value.
    """
    if not isinstance(logs, str):
        return bool(logs)
    if logs not in _PRINTS:
        names = ", ".join(f'"{name}"' for name in _PRINTS)
        raise LauncherError(f'logs="{logs}" is unknown: write True, False, or one of {names}')
    return _PRINTS[logs]


def follow_and_print(job: Job, *, logs: bool) -> None:
    """Wait until a job has ended; Ctrl-C detaches and prints how to reattach.

    logs: whether to print log lines and states; notices about stalls are always printed. In a
    notebook, states are shown in an output of their own.
    """
    show = _notebook_output()
    try:
        if show is None:
            _follow_by_lines(job, logs=logs)
        else:
            _follow_in_notebook(job, show, logs=logs)
    except KeyboardInterrupt:
        print(
            f"\nDetached; job {job.name} continues. latest_training_job.wait() follows it again; "
            "latest_training_job.stop() stops it.",
            flush=True,
        )
        raise


def _notebook_output() -> Callable[[str], None] | None:
    """Return what shows HTML in an output of the running cell, in place; None outside notebooks."""
    ipython: Any = sys.modules.get("IPython")  # a notebook has imported it
    shell = ipython and ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return lambda text: handle.update(HTML(text))


def _follow_by_lines(job: Job, *, logs: bool) -> None:
    if logs:
        print(f"Job {job.name}", flush=True)
    job.wait(
        logs=print_line if logs else None,
        states=print_state if logs else None,
        notices=print_notice,
    )


def _follow_in_notebook(job: Job, show: Callable[[str], None], *, logs: bool) -> None:
    cell = LiveCell(job, show, print_notice)

    def take(line: LogLine) -> None:
        cell.take(line)
        if logs:
            print_line(line)

    job.wait(take, notices=print_notice, polls=cell.update, metrics=cell.add)
    cell.close()


def print_line(line: LogLine) -> None:
    """Print a line of a host, with its group and host; of an event only what a user should see."""
    event = line.event
    text = line.readable if event is None else sentence(*event)
    if text is not None and not line.belongs_to_event:  # the exception has the traceback
        print(printable(f"{line.group}/{line.host} | {text}"), flush=True)


def print_state(state: StateChange) -> None:
    """Print a change of the job's state."""
    print(printable(str(state)), flush=True)


def print_notice(notice: str) -> None:
    """Print a notice: the job is silent, the service does not answer, or a retry follows."""
    print(printable(f"({notice})"), flush=True)


class LiveCell:
    """Shows the state, hosts and progress of a job, its step time and one of its metrics.

    show: replaces the HTML of the output. notices: as in Job.description.
    """

    def __init__(
        self,
        job: Job,
        show: Callable[[str], None],
        notices: Callable[[str], None] | None = None,
    ) -> None:
        description = job.description(notices)
        self._job = job
        self._show = show
        self._records: list[MetricRecord] = []
        self._metrics = JobMetrics(
            job_name=job.name, records=self._records, defined=list(metric_patterns(description))
        )
        self._screen = JobScreen.of(job, description)
        self._next = 0.0
        self.update(description)

    def take(self, line: LogLine) -> None:
        """Take a line of a host."""
        self._screen.take(line)

    def add(self, record: MetricRecord) -> None:
        """Take a value of a metric."""
        self._records.append(record)

    def update(self, now: TrainingJobDescription) -> None:
        """Draw the state of a described job, at most once a second."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD_SECONDS
            self._show(self._html(now))

    def close(self) -> None:
        """Show the summary of the job; the error that `fit` raises has the cause of a failure."""
        with suppress(LauncherError):  # it stays as it is where the platform does not answer
            summary = {**self._job.summary(), "failure": None}
            text = summary_text(summary, is_followed=True).strip()
            self._show(f"{_PRE}{escaped(text)}</pre>{self._lines()}")

    def _html(self, now: TrainingJobDescription) -> str:
        shown = self._screen.shown(now)
        texts = [shown.head, *shown.groups]
        # HTML shows the two spaces between facts as one.
        words = zip_longest(["State"], (text.replace("  ", ", ") for text in texts), fillvalue="")
        platform = self._job.session.platform.name
        of_session = "" if platform == "local" else f" --session {platform}"
        page = ("Page", f"launcher ui{of_session}")
        return notes_html([("Job", self._job.name), *words, page]) + self._lines()

    def _lines(self) -> str:
        """Return the lines of the step time and of one metric, as far as they are known."""
        times = [time for time, _ in self._screen.step_times]
        seconds = [each for _, each in self._screen.step_times]
        return _line("seconds per step", times, seconds) + self._metric_line()

    def _metric_line(self) -> str:
        """Return the first metric of the job that has a line; empty without any."""
        for name in (*self._metrics.defined, *_FIGURES):
            whole = self._metrics.whole_series
            series = next((each for each in whole if each.metric_name == name), None)
            finite = series and series.finite
            if finite and (drawn := _line(name, finite.times, finite.values)):
                return drawn
        return ""


def _line(name: str, times: Sequence[float], values: Sequence[float]) -> str:
    """Return a name, the line of its values and the last of them; empty for fewer than two."""
    drawn = sparkline(times, values)
    return drawn and f"<div>{escaped(name)} {drawn} {short_number(values[-1])}</div>"


def job_html(job: Job) -> str:
    """Return a table of a job's state, machines, metrics and outcome, or why it is not known."""
    try:
        facts = [*_facts(job, job.description())]
    except LauncherError as error:
        facts = [("Status", f"not known: {str(error).splitlines()[0]}")]
    return notes_html([("Job", job.name), *facts])


def _facts(job: Job, now: TrainingJobDescription) -> Iterator[tuple[str, str]]:
    status, secondary = now["TrainingJobStatus"], now["SecondaryStatus"]
    until = now.get("TrainingEndTime") or datetime.now(timezone.utc)
    after = f" after {readable((until - now['CreationTime']).total_seconds())}"
    yield "Status", status + (f" ({secondary})" if secondary != status else "") + after
    for group in host_groups(now):
        yield "Group", f"{group.name}: {len(group.hosts)} x {group.instance_type}"
    if failure := failure_of(job.session, now, brief=True):
        yield "Cause", "\n".join((failure.headline, *failure.lines))
    for name, value in final_metrics(now).items():
        yield "Metric", f"{name} = {value:.6g}"
    if model := model_uri(now):
        yield "Model", model

"""The output of a notebook's cell that follows a job: its state, drawn anew in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

from launcher.client.jobs.group_hosts import host_groups
from launcher.client.jobs.job_metrics import JobMetrics
from launcher.client.jobs.job_progress import JobProgress
from launcher.client.jobs.metric_records import MetricRecord, metric_patterns
from launcher.client.jobs.short_numbers import short_number
from launcher.client.jobs.sparklines import sparkline
from launcher.client.jobs.state_text import StateText
from launcher.client.jobs.summary_layout import summary_text
from launcher.client.spec.html_tables import escaped, html_pairs
from launcher.errors import LauncherError

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.client.jobs.log_line import LogLine
    from launcher.shared.training_job_types import TrainingJobDescription

#: The summary has columns, and the pages of exported notebooks give `pre` the font of their text.
_PRE = '<pre style="font-family: monospace">'
#: Seconds between two drawings.
_PERIOD_SECONDS = 1.0
#: Launcher's own figures by which a job without metric definitions is drawn: the first that it has.
_FIGURES = ("train/loss", "data/steps_per_second", "host/cpu")


class LiveCell:
    """Shows the state, hosts and progress of a job, and the line of one of its metrics.

    show: replaces the HTML of the output. notices: as in Job.description.
    """

    def __init__(
        self,
        job: Job,
        show: Callable[[str], None],
        notices: Callable[[str], None] | None = None,
    ) -> None:
        description = job.description(notices)
        bill = job.cost(description)
        self._job = job
        self._show = show
        self._records: list[MetricRecord] = []
        self._metrics = JobMetrics(
            job_name=job.name, records=self._records, defined=list(metric_patterns(description))
        )
        self._progress = JobProgress(host_groups(description))
        self._state = StateText(
            progress=self._progress, dollars=None if bill is None else bill.estimate.dollars
        )
        self._next = 0.0
        self.update(description)

    def take(self, line: LogLine) -> None:
        """Take a line of a host."""
        if (event := line.event) is not None:
            self._progress.add(line, *event)

    def add(self, record: MetricRecord) -> None:
        """Take a value of a metric."""
        self._records.append(record)

    def update(self, now: TrainingJobDescription) -> None:
        """Draw the state of a described job, at most once a second."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD_SECONDS
            self._show(self._html(now))

    def close(self) -> None:
        """Show the summary of a job that has completed, and the last state of any other.

        The error that `fit` raises has the cause of a failure.
        """
        with suppress(LauncherError):  # it stays as it is where the platform does not answer
            now = self._job.description()
            if now["TrainingJobStatus"] == "Completed":
                text = summary_text(self._job.summary(), is_followed=True).strip()
                self._show(f"{_PRE}{escaped(text)}</pre>{self._line()}")
            else:
                self._show(self._html(now))

    def _html(self, now: TrainingJobDescription) -> str:
        texts = [self._state.head(now), *self._state.groups()]
        # HTML shows the two spaces between facts as one.
        words = zip_longest(["State"], (text.replace("  ", ", ") for text in texts), fillvalue="")
        return html_pairs([("Job", self._job.name), *words]) + self._line()

    def _line(self) -> str:
        """Return the first metric of the job that has a line; empty without any."""
        for name in (*self._metrics.defined, *_FIGURES):
            whole = self._metrics.whole_series
            series = next((each for each in whole if each.metric_name == name), None)
            finite = series and series.finite
            drawn = finite and sparkline(finite.times, finite.values)
            if series and drawn:
                return f"<div>{escaped(name)} {drawn} {short_number(series.values[-1])}</div>"
        return ""

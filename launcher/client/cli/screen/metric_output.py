"""The output of `launcher metrics`: values line by line, or charts that are drawn anew."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from launcher.client.cli.screen.charts import Style, metric_charts
from launcher.client.cli.screen.ctrl_c import defer_ctrl_c
from launcher.client.cli.screen.live_view import is_terminal, live_display
from launcher.client.cli.screen.verb_output import (
    echo,
    print_json_line,
    print_message,
    print_whole,
    terminal_width,
    wants_colours,
)
from launcher.client.jobs import COLUMNS, JobMetrics, MetricRecord, metric_table, row_of
from launcher.client.show import csv_line, short_number
from launcher.shared import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Seconds between two drawings.
_PERIOD_SECONDS = 1.0


class MetricOutput(Protocol):
    """Shows values as they come."""

    def show(self, record: MetricRecord) -> None:
        """Take one value, by time."""

    def update(self) -> None:
        """Show what was taken so far; the platform was asked for more."""

    def close(self) -> None:
        """End the output."""


class ValueLines:
    """Prints each value as a line on stdout. line: prints one."""

    def __init__(self, line: Callable[[MetricRecord], None]) -> None:
        self.show = line

    def update(self) -> None:
        """Do nothing, as each line is printed at once."""

    def close(self) -> None:
        """Do nothing."""


class LiveCharts:
    """Draws the charts of a running job on stderr, and prints the last ones on stdout.

    job_name, defined: as of JobMetrics.
    """

    def __init__(self, job_name: str, defined: Sequence[str]) -> None:
        self._records: list[MetricRecord] = []
        self._metrics = JobMetrics(job_name=job_name, records=self._records, defined=defined)
        self._next = 0.0
        self._live = live_display()
        self._live.start()

    def show(self, record: MetricRecord) -> None:
        """Take one value."""
        self._records.append(record)

    def update(self) -> None:
        """Draw the charts anew, at most once a second."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PERIOD_SECONDS
        from rich.text import Text

        with defer_ctrl_c() as is_pressed:  # what is half drawn could not be removed
            lines = metric_charts(self._metrics, self._live.console.width)
            self._live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
        if is_pressed():
            raise KeyboardInterrupt

    def close(self) -> None:
        """Print the charts as they are now."""
        self._live.stop()
        print_metrics(self._metrics)


def metric_output(output: str, job_name: str, defined: Sequence[str]) -> MetricOutput:
    """Return the output of a job that is followed. output: text, json or csv."""
    if output == "text" and is_terminal():
        return LiveCharts(job_name, defined)
    return ValueLines(_printer(output))


def print_values(metrics: JobMetrics, output: str) -> None:
    """Print the values so far, in the form that `-o` selects."""
    if output == "text":
        print_metrics(metrics)
        return
    show = _printer(output)
    for record in metrics.records:
        show(record)


def print_metrics(metrics: JobMetrics) -> None:
    """Print the values so far: as charts on a terminal, else as a table."""
    if not metrics.records:
        print_message(f"job {metrics.job_name} has printed no values of metrics yet")
        return
    width = terminal_width(sys.stdout)
    if width is None:
        echo(metric_table(metrics))
        return
    bold: Style = partial(click.style, bold=True) if wants_colours() else str
    echo("\n".join(metric_charts(metrics, width, bold)))


def _printer(output: str) -> Callable[[MetricRecord], None]:
    """Return what prints a value as a line; CSV begins with the names of the columns."""
    if output == "csv":
        print_whole(csv_line(COLUMNS))
    return {"text": _print_text, "json": _print_json, "csv": _print_csv}[output]


def _print_text(record: MetricRecord) -> None:
    origin = "/".join(part for part in (record.group, record.host) if part) or "-"
    text = f"{record.metric_name}  {short_number(record.value)}  {origin}"
    echo(f"{row_of(record)['time']:%H:%M:%S}  {printable(text, keep_styles=False)}")


def _print_json(record: MetricRecord) -> None:
    print_json_line(row_of(record))


def _print_csv(record: MetricRecord) -> None:
    print_whole(csv_line(list(row_of(record).values())))

"""The metrics of a job over time: a series for each metric and host, and its small line chart."""

from __future__ import annotations

import dataclasses
import itertools
import math
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.metric_records import MetricReader, MetricRecord, records_from_any
from launcher.client.sessions import metric_patterns
from launcher.client.show import Markup, Table, short_number, table_html, thin
from launcher.errors import LauncherError, Problem, SpecError
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.client.jobs.merged_log import LogLine


#: The columns of a table of values.
COLUMNS = ("time", "metric_name", "group", "host", "step", "value")
_WIDTH, _HEIGHT, _MARGIN = 160, 28, 2
#: Points of a line at most; between them, the largest and smallest values are kept.
_POINTS = 160


@dataclass(frozen=True, kw_only=True)
class MetricSeries:
    """The values of one metric on one host, by time; at least one.

    host, group: None for CloudWatch's averages over the hosts. times: seconds since the epoch.
    """

    metric_name: str
    group: str | None
    host: str | None
    times: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def finite(self) -> MetricSeries | None:
        """The series without infinite values and NaN; None if all are."""
        if all(map(math.isfinite, self.values)):
            return self
        points = [
            point for point in zip(self.times, self.values, strict=True) if math.isfinite(point[1])
        ]
        if not points:
            return None
        times, values = zip(*points, strict=True)
        return dataclasses.replace(self, times=times, values=values)


@dataclass(frozen=True, kw_only=True)
class JobMetrics:
    """The values of a job's metrics so far: those that it defines, and Launcher's own figures.

    records: each value, by time. defined: the names of the job's metric definitions.
    """

    job_name: str
    records: Sequence[MetricRecord]
    defined: Sequence[str] = ()

    def _repr_html_(self) -> str:
        """Return a table with a row and a line chart for each metric and host."""
        table = metric_table(self)
        drawn = [Markup(_drawn(series)) for series in self.whole_series]
        rows = [(*row, picture) for row, picture in zip(table.rows, drawn, strict=True)]
        columns = (*table.columns, "")
        return table_html(
            dataclasses.replace(table, title=self.job_name, columns=columns, rows=rows)
        )

    @property
    def names(self) -> list[str]:
        """The metrics that have values: the job's own definitions, then Launcher's by name."""
        return _in_order({record.metric_name for record in self.records}, self.defined)

    @property
    def series(self) -> list[MetricSeries]:
        """The finite values by metric and host, in the order of `names`."""
        return self._collected.series(self.defined)

    @property
    def whole_series(self) -> list[MetricSeries]:
        """The same with infinite values and NaN, which a loss may be."""
        return self._collected.whole_series(self.defined)

    @property
    def _collected(self) -> CollectedSeries:
        found = CollectedSeries()
        for record in self.records:
            found.add(record.metric_name, record.group, record.host, record.time, record.value)
        return found

    def select(self, names: Collection[str]) -> JobMetrics:
        """Return the metrics of some names; raise SpecError for a name that the job does not have.

        A defined metric without values so far is none of these.
        """
        names = [names] if isinstance(names, str) else names
        known = list(dict.fromkeys([*self.defined, *self.names]))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise SpecError([_unknown(name, known) for name in unknown])
        return JobMetrics(
            job_name=self.job_name,
            records=[record for record in self.records if record.metric_name in names],
            defined=[name for name in self.defined if name in names],
        )

    def dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each value, by time.

        Columns: time (UTC), metric_name, group, host, step, value. Raises LauncherError without
        pandas.
        """
        pandas = import_pandas("metric_series().records")
        return pandas.DataFrame(list(map(row_of, self.records)), columns=list(COLUMNS))


class CollectedSeries:
    """Values of metrics, taken one after the other, as series.

    begin: the time of the first line or value.
    """

    def __init__(self) -> None:
        self.begin: float | None = None
        self._values: dict[tuple[str, str | None, str | None], tuple[array[float], ...]] = {}

    @property
    def names(self) -> list[str]:
        """The metrics that have values, by the time of their first."""
        return list(dict.fromkeys(name for name, _, _ in self._values))

    def add_line(self, line: LogLine, reader: MetricReader) -> None:
        """Take the values in a line that is not before the last one."""
        self.begin = line.time if self.begin is None else self.begin
        for name, value, _ in reader.values(line):
            self.add(name, line.group, line.host, line.time, value)

    def add(
        self, metric_name: str, group: str | None, host: str | None, time: float, value: float
    ) -> None:
        """Take a value, of a time that is not before that of its series' last one."""
        key = (metric_name, group, host)
        found = self._values.get(key)
        if found is None:
            self.begin = time if self.begin is None else self.begin
            found = self._values[key] = (array("d"), array("d"))
        found[0].append(time)
        found[1].append(value)

    def by_time(self, metric_name: str) -> list[tuple[float, float]]:
        """Return the times and values of a metric on all hosts."""
        hosts = [each for (name, *_), each in self._values.items() if name == metric_name]
        times, values = (itertools.chain(*each) for each in zip(*hosts, strict=True))
        return sorted(zip(times, values, strict=True), key=itemgetter(0))

    def series(self, defined: Sequence[str] = ()) -> list[MetricSeries]:
        """Return the finite values so far, in the order of `JobMetrics.names` and of the hosts."""
        return [found for each in self.whole_series(defined) if (found := each.finite) is not None]

    def whole_series(self, defined: Sequence[str] = ()) -> list[MetricSeries]:
        """Return the same with infinite values and NaN."""
        order = {name: place for place, name in enumerate(_in_order(self.names, defined))}
        found = [
            MetricSeries(
                metric_name=name,
                group=group,
                host=host,
                times=tuple(times),
                values=tuple(values),
            )
            for (name, group, host), (times, values) in self._values.items()
        ]
        return sorted(found, key=lambda each: (order[each.metric_name], _host_order(each.host)))


def _in_order(found: Collection[str], defined: Sequence[str]) -> list[str]:
    """Return metrics that have values: those that the job defines, then the others by name."""
    return [name for name in defined if name in found] + sorted(set(found).difference(defined))


def row_of(record: MetricRecord) -> dict[str, object]:
    """Return a value as a row with COLUMNS, its time in UTC."""
    time = datetime.fromtimestamp(record.time, tz=timezone.utc)
    return {name: getattr(record, name) for name in COLUMNS} | {"time": time}


def metric_table(metrics: JobMetrics) -> Table:
    """Return a row for each metric and host: its number of values, and some of them."""
    columns = ("METRIC", "GROUP", "HOST", "VALUES", "FIRST", "MIN", "MAX", "LAST")
    rows = [_series_row(each) for each in metrics.whole_series]
    return Table(columns=columns, rows=rows, numbers=columns[3:])


def _series_row(series: MetricSeries) -> tuple[str, ...]:
    values, finite = series.values, series.finite or series
    shown = (values[0], min(finite.values), max(finite.values), values[-1])
    origin = (series.group or "-", series.host or "-")
    return (series.metric_name, *origin, str(len(values)), *map(short_number, shown))


def read_metrics_of(job: Job, names: Collection[str] | None = None) -> JobMetrics:
    """Return the metrics of a job so far, from its logs, or from CloudWatch without any.

    names: default, all. Raises SpecError for one that the job does not have.
    """
    found = JobMetrics(
        job_name=job.name,
        records=records_from_any(job, own=True),
        defined=list(metric_patterns(job.description())),
    )
    return found if names is None else found.select(names)


def import_pandas(instead: str) -> Any:
    """Return pandas, which is the user's; raise LauncherError without it, naming what to use."""
    try:
        import pandas
    except ImportError as error:
        raise LauncherError(
            f"a DataFrame needs pandas: pip install pandas, or use {instead}"
        ) from error
    return pandas


def _host_order(host: str | None) -> tuple[int, str]:
    number = (host or "").rpartition("-")[2]
    return (int(number) if number.isdecimal() else 0, host or "")


def _unknown(name: str, known: Sequence[str]) -> Problem:
    has = f"it has {', '.join(known)}" if known else "it has no values yet"
    return Problem(
        what=f"the job has no metric {name!r}; {has}",
        where="metric name",
        fix=choice_fix(name, known) if known else "add it to metric_definitions",
    )


def group_series(series: Sequence[MetricSeries]) -> Iterator[tuple[str, str, list[MetricSeries]]]:
    """Yield each metric and group, and the series of the group's hosts."""
    grouped: dict[tuple[str, str], list[MetricSeries]] = {}
    for each in series:
        grouped.setdefault((each.metric_name, each.group or ""), []).append(each)
    for (name, group), found in grouped.items():
        yield name, group, found


def _drawn(series: MetricSeries) -> str:
    return sparkline(series.finite.times, series.finite.values) if series.finite else ""


def sparkline(times: Sequence[float], values: Sequence[float]) -> str:
    """Return SVG of a line through finite values, by time; empty for fewer than two."""
    if len(values) < 2:
        return ""
    chosen = thin(values, _POINTS)
    low, high = min(values), max(values)
    points = " ".join(
        f"{_place(times[index], times[0], times[-1], _WIDTH):.1f},"
        f"{_HEIGHT - _place(values[index], low, high, _HEIGHT):.1f}"
        for index in chosen
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _place(value: float, low: float, high: float, size: int) -> float:
    """Return where a value is between two others, in a length with margins."""
    span = high / 2 - low / 2  # halved, as a difference of two floats may overflow
    share = (value / 2 - low / 2) / span if span > 0 else 0.5
    return _MARGIN + share * (size - 2 * _MARGIN)

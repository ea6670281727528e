"""TrainingJobAnalytics: the metrics of a training job over time, as SDK v2's class of that name.

The job is named as to an Estimator: by its name, or by an object of either package.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from launcher.client.jobs import (
    PERIOD_SECONDS,
    Job,
    MetricRecord,
    TimeRange,
    import_pandas,
    records_from_any,
    records_from_cloudwatch,
    records_from_logs,
)
from launcher.client.sessions import aws_session, is_local_mode, own_session, session_of
from launcher.client.spec import names
from launcher.errors import LauncherError, Problem, SpecError
from launcher.shared import shown

_COLUMNS = ("timestamp", "metric_name", "value")


class TrainingJobAnalytics:
    """The values of a job's metrics; read on first use, and kept until `clear_cache`.

    They come from the hosts' logs: each printed value, on every session. Where the logs have none
    (they are gone, or not readable), CloudWatch's averages by `period` seconds are read, or by the
    next longer period that it still has.

    training_job_name: a name, or a job of Launcher or the sagemaker package.
    metric_names: default, all that the job defines.
    sagemaker_session: as of an Estimator.
    start_time, end_time: default, the job's; without a zone, local times.
    source: "logs" or "cloudwatch" reads that one only.

    Raises JobNotFound.
    """

    #: CloudWatch's namespace of the metrics.
    CLOUDWATCH_NAMESPACE = "/aws/sagemaker/TrainingJobs"

    def __init__(
        self,
        training_job_name: object,
        metric_names: Sequence[str] | None = None,
        sagemaker_session: object = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        period: int | None = None,
        *,
        source: str | None = None,
    ) -> None:
        if source not in (None, "logs", "cloudwatch"):
            raise LauncherError(f'source="{source}" is unknown: write "logs" or "cloudwatch"')
        self._job = find_job(training_job_name, sagemaker_session)
        self._names = names(metric_names) or None
        start, end = (each and each.astimezone() for each in (start_time, end_time))
        self._within = TimeRange(start=start, end=end)
        self._period = period or PERIOD_SECONDS
        self._source = source
        self._records: list[MetricRecord] | None = None

    def __repr__(self) -> str:
        return f"TrainingJobAnalytics({self.name!r})"

    @property
    def name(self) -> str:
        """The name of the training job."""
        return self._job.name

    def clear_cache(self) -> None:
        """Forget the values, so that they are read again."""
        self._records = None

    def records(self) -> list[MetricRecord]:
        """Return each value with its metric, time and host, by time."""
        if self._records is None:
            self._records = self._read()
        return self._records

    def dataframe(self, force_refresh: bool = False) -> Any:
        """Return a pandas DataFrame with SDK v2's columns: timestamp, metric_name and value.

        timestamp: seconds since the metric's first value. Raises LauncherError without pandas.
        """
        pandas = import_pandas("records()")
        if force_refresh:
            self.clear_cache()
        return pandas.DataFrame(self._rows(), columns=list(_COLUMNS))

    def export_csv(self, filename: str | os.PathLike[str]) -> None:
        """Write the columns of `dataframe` to a file, with pandas' numbers of the rows."""
        with open(filename, "w", newline="", encoding="utf-8") as file:  # noqa: PTH123 (any path)
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("", *_COLUMNS))
            rows.writerows((number, *row) for number, row in enumerate(self._rows()))

    def _rows(self) -> list[tuple[float, str, float]]:
        """Return SDK v2's rows: metric by metric, each by time from its first value."""
        by_metric: dict[str, list[MetricRecord]] = {name: [] for name in self._names or ()}
        for record in self.records():
            by_metric.setdefault(record.metric_name, []).append(record)
        return [
            (record.time - of_one[0].time, name, record.value)
            for name, of_one in by_metric.items()
            for record in of_one
        ]

    def _read(self) -> list[MetricRecord]:
        if self._source == "logs":
            return records_from_logs(self._job, self._names, self._within)
        read = records_from_cloudwatch if self._source == "cloudwatch" else records_from_any
        return read(self._job, self._names, self._within, self._period)


def find_job(named: object, given: object) -> Job:
    """Return a job of the given session; without a session, one of this machine, or else of AWS.

    named: a name; a Job, which keeps its session; an Estimator of either package, which stands for
    its latest job; a job of an Estimator of SDK v2; or a TrainingJob of SDK v3.

    Raises SpecError for any other object, and JobNotFound if no session is given and neither of the
    two has the job.
    """
    if hasattr(named, "latest_training_job"):
        latest = _latest_job(named)
        if not isinstance(latest, Job):  # of SDK v2, whose jobs are where its session is
            given = given or getattr(named, "sagemaker_session", None)
        named = latest
    if isinstance(named, Job) and given is None:
        return named
    name = named.name if isinstance(named, Job) else job_name_of(named)
    if given is None:
        return Job(name, session_of(name))
    return Job(name, own_session(given, local=is_local_mode(given)) or aws_session(given))


def job_name_of(named: object) -> str:
    """Return the name of a job that is given by its name or as an object of either package."""
    if isinstance(named, str):
        return named
    for attribute in ("training_job_name", "job_name"):
        if isinstance(name := getattr(named, attribute, None), str):
            return name
    raise _refused(f"{shown(named)} is not a training job", "give the name of one")


def _latest_job(estimator: object) -> object:
    latest: object = getattr(estimator, "latest_training_job")  # noqa: B009 - of either package
    if latest is None:
        raise _refused("the estimator has not run a job", "call its fit() first, or give a name")
    return latest


def _refused(what: str, fix: str) -> SpecError:
    return SpecError([Problem(what=what, where="training_job_name", fix=fix)])

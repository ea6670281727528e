"""A run in MLflow, by its client library."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from launcher.client.jobs.metric_records import MetricRecord
from launcher.client.spec import is_folder

DEFAULT_EXPERIMENT = "launcher"
#: The most values that MLflow takes at once.
_BATCH = 1000
#: Characters that MLflow has in no metric's name; only newer versions have the colon.
#: Source: mlflow/utils/validation.py.
_REFUSED = re.compile(r"[^/\w.\- :]")
#: Characters of MLflow's reason for a refusal.
_REASON_LENGTH = 200
#: MLflow's status of a run that has ended, by TrainingJobStatus.
_STATUS = {"Completed": "FINISHED", "Failed": "FAILED", "Stopped": "KILLED"}


class MlflowTracker:
    """Writes a run of the job's name, with the host's name at the end of each metric's.

    A name has "_" for each character that MLflow refuses.

    uri: MLflow's tracking URI, or a folder. has_many_hosts: false for a job with one host, whose
    metrics keep their names.
    """

    def __init__(self, uri: str, experiment: str, job_name: str, *, has_many_hosts: bool) -> None:
        from mlflow.entities import Metric  # the user's library, imported when it is used
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        self._metric = Metric
        self._refusal = MlflowException
        self._takes_colons = True
        self._has_many_hosts = has_many_hosts
        self._client = MlflowClient(tracking_uri=_uri(uri))
        found = self._client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else self._client.create_experiment(experiment)
        self._run: str = self._client.create_run(number, run_name=job_name).info.run_id

    def log(self, records: Sequence[MetricRecord]) -> None:
        """Write values, at most a thousand at once."""
        for first in range(0, len(records), _BATCH):
            batch = records[first : first + _BATCH]
            try:
                self._log_batch(batch)
            except self._refusal:
                if not self._takes_colons or not any(":" in each.metric_name for each in batch):
                    raise
                self._takes_colons = False
                self._log_batch(batch)

    def _log_batch(self, batch: Sequence[MetricRecord]) -> None:
        """Write values, all of them or, if MLflow refuses one, none."""
        metrics = [
            self._metric(self._name(record), record.value, round(record.time * 1000), record.step)
            for record in batch
        ]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, status: str | None) -> None:
        """End the run as the job ended; that of a job that goes on stays as it is."""
        if status in _STATUS:
            self._client.set_terminated(self._run, status=_STATUS[status])

    def _name(self, record: MetricRecord) -> str:
        name = _REFUSED.sub("_", record.metric_name)
        if not self._takes_colons:
            name = name.replace(":", "_")
        return f"{name}/{record.host}" if self._has_many_hosts and record.host else name


def refusal_of_folder(uri: str) -> str | None:
    """Return why MLflow refuses to write to a folder, as newer versions do; None if it does not.

    None, too, for servers and databases, which are not asked.
    """
    if not _uri(uri).startswith("file:"):
        return None
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        MlflowClient(tracking_uri=_uri(uri))
    except MlflowException as error:
        return textwrap.shorten(str(error), _REASON_LENGTH, placeholder=" …")
    return None


def _uri(given: str) -> str:
    return Path(given).absolute().as_uri() if is_folder(given) else given

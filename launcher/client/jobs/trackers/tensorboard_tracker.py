"""TensorBoard's event files: FOLDER/<job>/<host>/events.out.tfevents.*, a folder for each host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.client.jobs.metric_records import MetricRecord

#: The folder of values that are averages over the hosts.
_ALL_HOSTS = "hosts"


class TensorBoardTracker:
    """Writes scalars with the classes of the `tensorboard` package, as torch's SummaryWriter does.

    TensorBoard draws the hosts of a job, and other jobs, as lines of one chart per metric.
    """

    def __init__(self, folder: Path, job_name: str) -> None:
        # The user's library, imported when it is used.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary, self._writer = Event, Summary, EventFileWriter
        self._folder = folder / job_name
        self._writers: dict[str, Any] = {}

    def log(self, records: Sequence[MetricRecord]) -> None:
        """Write values, and flush them, so that TensorBoard shows them."""
        for record in records:
            value = self._summary.Value(tag=record.metric_name, simple_value=record.value)
            event = self._event(
                wall_time=record.time, step=record.step, summary=self._summary(value=[value])
            )
            self._writer_of(record.host or _ALL_HOSTS).add_event(event)
        for writer in self._writers.values():
            writer.flush()

    def close(self, status: str | None) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def _writer_of(self, host: str) -> Any:
        if host not in self._writers:
            self._writers[host] = self._writer(str(self._folder / host))
        return self._writers[host]

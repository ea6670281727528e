"""A job that was created: its state, logs, outcome and artifacts, on whatever platform it runs."""

from __future__ import annotations

import difflib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.bill import Bill, bill
from launcher.contract import (
    CODE_CHANNEL,
    DOCUMENT_FILE,
    JobDocument,
    format_event,
    parse_event,
)
from launcher.errors import JobFailed, JobStopped, LauncherError, Problem, SpecError
from launcher.outcome import host_groups, summarise
from launcher.sessions.base import TERMINAL_STATUSES, LogEvent, Session


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line that one host printed, without its end of line.

    time: when it was printed, in seconds since the epoch.
    """

    group: str
    host: str
    text: str
    time: float

    @property
    def readable(self) -> str:
        """The text for a person who sees group and host beside it already."""
        event = parse_event(self.text)
        if event is None:
            return self.text
        name, fields = event
        shown = {key: value for key, value in fields.items() if key not in ("group", "host")}
        return format_event(name, **shown)

    @property
    def is_event(self) -> bool:
        """Whether the line is Launcher's own."""
        return parse_event(self.text) is not None


class Job:
    """A handle on a job by its name; any process can make one, at any time.

    poll_seconds: how often the platform is asked while waiting.
    """

    def __init__(self, name: str, session: Session, *, poll_seconds: float = 0.5) -> None:
        self.name = name
        self.session = session
        self._poll_seconds = poll_seconds

    def __repr__(self) -> str:
        return f"Job({self.name!r})"

    def description(self) -> dict[str, Any]:
        """The DescribeTrainingJob document as it is now; JobNotFound when there is none."""
        return self.session.describe_training_job(TrainingJobName=self.name)

    @property
    def status(self) -> str:
        """InProgress, Completed, Failed, Stopping or Stopped."""
        return str(self.description()["TrainingJobStatus"])

    @property
    def secondary_status(self) -> str:
        """The platform's finer word: Starting, Downloading, Training, Uploading, ..."""
        return str(self.description()["SecondaryStatus"])

    @property
    def model_data(self) -> str:
        """The URI of model.tar.gz; waits for the end of the job, without a word.

        Raises JobFailed or JobStopped when the job did not complete, and LauncherError when it left
        no model.
        """
        self.wait().raise_for_status()
        model = self.description().get("ModelArtifacts", {}).get("S3ModelArtifacts")
        if model is None:
            raise LauncherError(f"job {self.name} left nothing in /opt/ml/model (SM_MODEL_DIR)")
        return str(model)

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric of the spec that the logs contained."""
        metrics: dict[str, float] = self.summary()["metrics"]
        return metrics

    def stop(self) -> None:
        """Ask the job to stop; its hosts have 120 seconds to save their work."""
        self.session.stop_training_job(TrainingJobName=self.name)

    def wait(
        self,
        logs: Callable[[LogLine], None] | None = None,
        states: Callable[[str], None] | None = None,
    ) -> Job:
        """Return when the job has ended, well or badly.

        logs: called with each line as it appears; states: with each new secondary status.
        """
        for event in self._watch(read_logs=logs is not None):
            if isinstance(event, str):
                if states:
                    states(event)
            elif logs:
                logs(event)
        return self

    def raise_for_status(self) -> None:
        """Raise JobFailed or JobStopped when the job ended so; return when it did not."""
        now = self.description()
        if now["TrainingJobStatus"] == "Failed":
            raise JobFailed(self.name, now.get("FailureReason", "no reason was given"))
        if now["TrainingJobStatus"] == "Stopped":
            raise JobStopped(self.name, now["SecondaryStatus"])

    def logs(
        self, *, follow: bool = False, group: str | None = None, host: str | None = None
    ) -> Iterator[LogLine]:
        """The hosts' lines, of one group or host when named; `follow` goes on until the end."""
        self._check_filter(group, host)
        events = self._watch(read_logs=True) if follow else self._read_new({})
        for event in events:
            if (
                isinstance(event, LogLine)
                and group in (None, event.group)
                and host in (None, event.host)
            ):
                yield event

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values: what `-o json` prints."""
        lines = (line.text for line in self.logs())
        cost = self.cost()
        return {
            **summarise(self.description(), self.document(), lines),
            "cost": cost and cost.summary(),
        }

    def cost(self) -> Bill | None:
        """What the job costs, an estimate; None on this machine, where it costs nothing."""
        return bill(self.description())

    def document(self) -> JobDocument | None:
        """The job document that was uploaded with the code; None when it is there no more."""
        code = [
            channel["DataSource"]["S3DataSource"]["S3Uri"]
            for channel in self.description().get("InputDataConfig", [])
            if channel["ChannelName"] == CODE_CHANNEL
        ]
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / DOCUMENT_FILE
            try:
                self.session.download(code[0] + DOCUMENT_FILE, copy)
            except (IndexError, LauncherError):
                return None
            return JobDocument.from_json(copy.read_text(encoding="utf-8"))

    def _watch(self, *, read_logs: bool) -> Iterator[LogLine | str]:
        """New secondary statuses and log lines, again and again until the job has ended."""
        positions: dict[str, str] = {}
        seen = 0
        while True:
            now = self.description()  # before the lines: after the end the logs are complete
            ended = now["TrainingJobStatus"] in TERMINAL_STATUSES
            states = [change["Status"] for change in now["SecondaryStatusTransitions"]]
            before_lines = states[seen : -1 if ended else None]
            yield from before_lines
            if read_logs:
                yield from self._read_new(positions)
            if ended:
                yield states[-1]
                return
            seen = len(states)
            time.sleep(self._poll_seconds)

    def _read_new(self, positions: dict[str, str]) -> Iterator[LogLine]:
        groups = self._group_of_hosts()
        for stream in self.session.log_streams(self.name):
            group = groups.get(stream.host, "?")
            for event in self._rest_of(stream.name, positions):
                yield LogLine(group=group, host=stream.host, text=event.text, time=event.time)

    def _rest_of(self, stream: str, positions: dict[str, str]) -> Iterator[LogEvent]:
        """A stream's lines after its position, to the end; a platform gives them in pieces."""
        while True:
            events, positions[stream] = self.session.read_log(
                self.name, stream, positions.get(stream)
            )
            if not events:
                return
            yield from events

    def _group_of_hosts(self) -> dict[str, str]:
        groups = host_groups(self.description())
        return {host: group.name for group in groups for host in group.hosts}

    def _check_filter(self, group: str | None, host: str | None) -> None:
        groups = self._group_of_hosts()
        problems = _unknown("group", group, list(dict.fromkeys(groups.values())))
        problems += _unknown("host", host, list(groups))
        if problems:
            raise SpecError(problems)


def _unknown(kind: str, given: str | None, known: list[str]) -> list[Problem]:
    if given is None or given in known:
        return []
    near = difflib.get_close_matches(given, known, n=1) or known[:1]
    return [
        Problem(
            what=f"the job has no {kind} {given!r}; it has {', '.join(known)}",
            where=f"--{kind}",
            fix=f"use --{kind} {near[0]}",
        )
    ]

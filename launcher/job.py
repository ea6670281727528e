"""A job that was created: its state, logs, outcome and artifacts, on whatever platform it runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.contract import CODE_CHANNEL, DOCUMENT_FILE, JobDocument
from launcher.errors import JobFailed, JobStopped, LauncherError
from launcher.following.failure import (
    FailedHost,
    find_failed_host,
    host_of_reason,
    to_plain,
)
from launcher.following.hosts import chosen_hosts, training_hosts
from launcher.following.lines import LogLine
from launcher.following.merge import MergedLog
from launcher.following.patience import PatientSession
from launcher.following.pause import Pause
from launcher.following.watch import StateChange, Watch
from launcher.outcome.artifacts import FileProgress, download_artifacts
from launcher.outcome.bill import Bill, bill
from launcher.outcome.hosts import group_of_hosts
from launcher.outcome.summary import summarise
from launcher.sessions.base import TERMINAL_STATUSES, Session

#: How long a platform may give no answer before waiting for its job ends with an error.
GIVE_UP_SECONDS = 30 * 60.0


class Job:
    """A handle on a job by its name; any process can make one, at any time.

    poll_seconds: how often the platform is asked while waiting (None: as its session says);
    give_up_seconds: how long it may give no answer before waiting ends with an error.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        *,
        poll_seconds: float | None = None,
        give_up_seconds: float = GIVE_UP_SECONDS,
    ) -> None:
        self.name = name
        self.session = session
        self._poll_seconds = poll_seconds
        self._give_up_seconds = give_up_seconds

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
        states: Callable[[StateChange], None] | None = None,
        notices: Callable[[str], None] | None = None,
        *,
        timeout: float | None = None,
    ) -> Job:
        """Return when the job has ended, well or badly.

        logs: called with each line as it appears; states: with each change of state; notices: with
        a sentence about every minute in which nothing happens, and when the platform does not
        answer; timeout: seconds to wait at most.

        Raises StillRunning when the timeout is over; Unreachable, CredentialsExpired or what else
        the platform last said when it gave no answer for `give_up_seconds`. The job goes on.
        """
        for event in self._watch(
            read_logs=logs is not None, notices=notices or _silent, timeout=timeout
        ):
            if isinstance(event, StateChange):
                if states:
                    states(event)
            elif logs:
                logs(event)
        return self

    def raise_for_status(self) -> None:
        """Raise JobFailed or JobStopped when the job ended so; return when it did not."""
        now = self.description()
        if now["TrainingJobStatus"] == "Failed":
            failed = self._failed_host(now)
            raise JobFailed(
                self.name,
                now.get("FailureReason", "no reason was given"),
                host=failed.host if failed else None,
                last_lines=failed.lines if failed else (),
            )
        if now["TrainingJobStatus"] == "Stopped":
            raise JobStopped(self.name, now["SecondaryStatus"])

    def failed_host(self) -> FailedHost | None:
        """Where a failed job failed first, with that host's last lines; None: not to be told."""
        return self._failed_host(self.description())

    def logs(
        self,
        *,
        follow: bool = False,
        group: str | None = None,
        host: str | None = None,
        notices: Callable[[str], None] | None = None,
    ) -> Iterator[LogLine]:
        """The hosts' lines by time, of one group or host when named.

        follow: go on until the end of the job; notices: as of `wait`.
        """
        hosts = None
        if group or host:
            groups = group_of_hosts(self.description())
            hosts = chosen_hosts(groups, group=group, host=host)
        if not follow:
            yield from self._lines(self.description(), hosts)
            return
        for event in self._watch(read_logs=True, hosts=hosts, notices=notices or _silent):
            if isinstance(event, LogLine):
                yield event

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values: what `-o json` prints."""
        now = self.description()
        document, cost = self._document(now), bill(now)
        # only those that train say how the data came
        lines = self._lines(now, training_hosts(group_of_hosts(now), document))
        return {
            **summarise(now, document, (line.text for line in lines)),
            "failed_host": to_plain(self._failed_host(now)),
            "cost": cost and cost.summary(),
        }

    def cost(self) -> Bill | None:
        """What the job costs, an estimate; None on this machine, where it costs nothing."""
        return bill(self.description())

    def download_artifacts(
        self, folder: str | Path = ".", progress: FileProgress | None = None
    ) -> list[Path]:
        """Fetch model.tar.gz and output.tar.gz, as far as the job left them; the files fetched.

        progress: told of a file's name, the bytes copied so far, and all that there are.
        """
        return download_artifacts(self.session, self.description(), Path(folder), progress)

    def document(self) -> JobDocument | None:
        """The job document that was uploaded with the code.

        None when it is there no more, or is of another tool, or of a version that we do not read.
        """
        return self._document(self.description())

    def _watch(
        self,
        *,
        read_logs: bool,
        notices: Callable[[str], None],
        hosts: frozenset[str] | None = None,
        timeout: float | None = None,
    ) -> Iterator[LogLine | StateChange]:
        pause = Pause(self.name, timeout)
        source = PatientSession(
            self.session,
            self.name,
            tell=notices,
            pause=pause,
            give_up_seconds=self._give_up_seconds,
        )
        groups = group_of_hosts(source.describe_training_job(TrainingJobName=self.name))
        log = MergedLog(source, self.name, groups, hosts=hosts) if read_logs else None
        poll_seconds = self._poll_seconds or self.session.poll_seconds
        return Watch(
            self.name, source, log=log, notices=notices, poll_seconds=poll_seconds, pause=pause
        ).events()

    def _lines(
        self, now: Mapping[str, Any], hosts: frozenset[str] | None = None
    ) -> Iterator[LogLine]:
        """What the hosts of a described job have printed so far."""
        log = MergedLog(self.session, self.name, group_of_hosts(now), hosts=hosts)
        return log.rest() if now["TrainingJobStatus"] in TERMINAL_STATUSES else log.present()

    def _failed_host(self, now: Mapping[str, Any]) -> FailedHost | None:
        if now["TrainingJobStatus"] != "Failed":
            return None
        host = host_of_reason(now.get("FailureReason", ""), group_of_hosts(now))
        try:
            return find_failed_host(self._lines(now, frozenset([host]) if host else None))
        except LauncherError:  # whoever may not read the logs is told the reason all the same
            return None

    def _document(self, now: Mapping[str, Any]) -> JobDocument | None:
        code = [
            channel["DataSource"]["S3DataSource"]["S3Uri"]
            for channel in now.get("InputDataConfig", [])
            if channel["ChannelName"] == CODE_CHANNEL and "S3DataSource" in channel["DataSource"]
        ]
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / DOCUMENT_FILE
            try:
                self.session.download(code[0] + DOCUMENT_FILE, copy)
                return JobDocument.from_json(copy.read_text(encoding="utf-8"))
            except (IndexError, LauncherError, UnicodeError):
                return None


def _silent(_notice: str) -> None:
    """Nobody is there to hear it."""

"""A job that was created: its state, logs, outcome and artifacts, on whatever platform it runs."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from launcher.artifacts import FileProgress, download_artifacts
from launcher.bill import Bill, bill
from launcher.contract import CODE_CHANNEL, DOCUMENT_FILE, JobDocument, Role
from launcher.errors import JobFailed, JobStopped, LauncherError, Problem, SpecError
from launcher.following.failure import (
    FailedHost,
    find_failed_host,
    host_of_reason,
    to_plain,
)
from launcher.following.lines import LogLine
from launcher.following.merge import MergedLog
from launcher.following.patience import PatientSession
from launcher.following.pause import Pause
from launcher.following.source import Source
from launcher.following.watch import StateChange, Watch
from launcher.outcome import host_groups, summarise
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
            failed = self.failed_host()
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
        now = self.description()
        if now["TrainingJobStatus"] != "Failed":
            return None
        host = host_of_reason(now.get("FailureReason", ""), self._group_of_hosts())
        try:
            return find_failed_host(self.logs(host=host))
        except LauncherError:  # whoever may not read the logs is told the reason all the same
            return None

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
        hosts = self._hosts_of(group, host)
        if not follow:
            yield from self._lines_now(hosts)
            return
        for event in self._watch(read_logs=True, hosts=hosts, notices=notices or _silent):
            if isinstance(event, LogLine):
                yield event

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values: what `-o json` prints."""
        document, cost = self.document(), self.cost()
        lines = self._lines_now(self._measuring_hosts(document))
        return {
            **summarise(self.description(), document, (line.text for line in lines)),
            "failed_host": to_plain(self.failed_host()),
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
        code = [
            channel["DataSource"]["S3DataSource"]["S3Uri"]
            for channel in self.description().get("InputDataConfig", [])
            if channel["ChannelName"] == CODE_CHANNEL and "S3DataSource" in channel["DataSource"]
        ]
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / DOCUMENT_FILE
            try:
                self.session.download(code[0] + DOCUMENT_FILE, copy)
                return JobDocument.from_json(copy.read_text(encoding="utf-8"))
            except (IndexError, LauncherError, UnicodeError):
                return None

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
        groups = self._group_of_hosts(source)
        log = MergedLog(source, self.name, groups, hosts=hosts) if read_logs else None
        poll_seconds = self._poll_seconds or self.session.poll_seconds
        return Watch(
            self.name, source, log=log, notices=notices, poll_seconds=poll_seconds, pause=pause
        ).events()

    def _lines_now(self, hosts: frozenset[str] | None) -> Iterator[LogLine]:
        log = MergedLog(self.session, self.name, self._group_of_hosts(), hosts=hosts)
        return log.rest() if self.status in TERMINAL_STATUSES else log.present()

    def _measuring_hosts(self, document: JobDocument | None) -> frozenset[str] | None:
        """The hosts that may print how the data came: those that train. None: all."""
        if document is None:
            return None
        groups = self._group_of_hosts()
        return frozenset(
            host for host, group in groups.items() if document.roles.get(group) is Role.TRAIN
        )

    def _hosts_of(self, group: str | None, host: str | None) -> frozenset[str] | None:
        """The hosts of a filter, None for no filter; SpecError for one that names nothing."""
        if group is None and host is None:
            return None
        groups = self._group_of_hosts()
        problems = _unknown("group", group, list(dict.fromkeys(groups.values())))
        problems += _unknown("host", host, list(groups))
        if problems:
            raise SpecError(problems)
        return frozenset(
            name
            for name, its_group in groups.items()
            if host in (None, name) and group in (None, its_group)
        )

    def _group_of_hosts(self, source: Source | None = None) -> dict[str, str]:
        now = (source or self.session).describe_training_job(TrainingJobName=self.name)
        groups = host_groups(now)
        return {host: group.name for group in groups for host in group.hosts}


def _silent(_notice: str) -> None:
    """Nobody is there to hear it."""


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

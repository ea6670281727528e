"""A job that was created: its state, logs, outcome and artifacts, on any platform."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from launcher.client.jobs.artifacts import FileProgress, download_artifacts
from launcher.client.jobs.background_log import BackgroundLog, within
from launcher.client.jobs.billing import Bill, bill
from launcher.client.jobs.failure_report import FailureReport, failure_of
from launcher.client.jobs.group_hosts import group_of_hosts, select_hosts, training_hosts
from launcher.client.jobs.job_follower import Deadline, JobFollower, Poll, StateChange
from launcher.client.jobs.job_metrics import JobMetrics, read_metrics_of
from launcher.client.jobs.job_printing import print_line, print_notice, print_state, prints_logs
from launcher.client.jobs.merged_log import LogLine, MergedLog
from launcher.client.jobs.metric_records import MetricReader, MetricRecord, final_metrics
from launcher.client.jobs.metric_tracking import tracked
from launcher.client.jobs.retrying_session import KnownJob, RetryingSession
from launcher.client.jobs.summary import summarise
from launcher.client.sessions import (
    TERMINAL_STATUSES,
    JobRecord,
    PlatformSession,
    RestartsJobs,
    read_record,
)
from launcher.errors import JobFailed, JobNotFound, JobStopped, LauncherError
from launcher.shared import CODE_CHANNEL, DOCUMENT_FILE, JobDocument, printable

if TYPE_CHECKING:
    from launcher.client.spec import Tracking
    from launcher.shared import TrainingJobDescription

Result = TypeVar("Result")

#: Seconds in which more is asked about an outcome: after the end of a followed job's log in all,
#: else without progress.
_OUTCOME_SECONDS = 10.0
#: Seconds without a response from the platform until waiting for a job fails.
GIVE_UP_SECONDS = 30 * 60.0


class Job:
    """A handle on a job by its name; any process can make one, at any time.

    poll_seconds: the polling interval while waiting (None: the session's own);
    give_up_seconds: seconds without a response from the platform until waiting fails;
    tracking: where the first `wait` writes the job's metrics, from its start;
    created: when the platform accepted the job; None if it may not exist.
    """

    def __init__(
        self,
        name: str,
        session: PlatformSession,
        *,
        poll_seconds: float | None = None,
        give_up_seconds: float = GIVE_UP_SECONDS,
        tracking: Tracking | None = None,
        created: datetime | None = None,
    ) -> None:
        self.name = name
        self.session = session
        self._poll_seconds = poll_seconds
        self._give_up_seconds = give_up_seconds
        self._tracking = tracking
        self._known = KnownJob(session, name, created)
        self._missing: LauncherError | None = None
        self._settled_by = -math.inf

    def __repr__(self) -> str:
        return f"Job({self.name!r})"

    def _repr_html_(self) -> str:
        from launcher.client.jobs.job_printing import job_html  # only notebooks need it

        return job_html(self)

    def description(self, notices: Callable[[str], None] | None = None) -> TrainingJobDescription:
        """Return the current DescribeTrainingJob document; JobNotFound if there is no such job.

        notices: wait for a platform that does not respond, as `wait` does, and call this with a
        sentence about it; default: raise its error at once.
        """
        return self._patient(notices).describe() if notices else self._known.describe()

    @property
    def job_name(self) -> str:
        """The job's name, as SDK v2 calls it."""
        return self.name

    def describe(self) -> TrainingJobDescription:
        """Return the current description, as SDK v2 calls it; see `description`."""
        return self.description()

    def rule_job_summary(self) -> list[dict[str, Any]]:
        """Return the evaluation status of each rule of SageMaker Debugger and its profiler."""
        now = dict(self.description())
        statuses = ("DebugRuleEvaluationStatuses", "ProfilerRuleEvaluationStatuses")
        return [dict(rule) for name in statuses for rule in cast("Any", now.get(name) or ())]

    @property
    def status(self) -> str:
        """One of InProgress, Completed, Failed, Stopping or Stopped."""
        return str(self.description()["TrainingJobStatus"])

    @property
    def secondary_status(self) -> str:
        """The platform's finer status: Starting, Downloading, Training, Uploading, ..."""
        return str(self.description()["SecondaryStatus"])

    @property
    def model_data(self) -> str:
        """The URI of model.tar.gz; waits silently for the end of the job.

        Raises JobFailed or JobStopped when the job did not complete, and LauncherError when it left
        no model.
        """
        now = self._end()
        self._raise_for_status(now)
        model = now.get("ModelArtifacts", {}).get("S3ModelArtifacts")
        if model is None:
            raise LauncherError(f"job {self.name} wrote no model to /opt/ml/model (SM_MODEL_DIR)")
        return str(model)

    @property
    def metrics(self) -> dict[str, float]:
        """The last value in the logs of each metric that the spec defines."""
        return final_metrics(self.description())

    def metric_series(self, names: Collection[str] | None = None) -> JobMetrics:
        """Return every value so far of the job's metrics, over time.

        These are its metric definitions and Launcher's own figures: CPU, memory and GPU of the
        hosts, and the progress of training and data. They come from the logs, or, where those have
        none, from CloudWatch's averages by minute.

        names: default, all. Raises SpecError for one that the job does not have.
        """
        return read_metrics_of(self, names)

    def metrics_dataframe(self) -> Any:
        """Return the values of `metric_series` as a pandas DataFrame, by time.

        Columns: time (UTC), metric_name, group, host, step, value. Raises LauncherError without
        pandas.
        """
        return self.metric_series().dataframe()

    @property
    def next_attempt(self) -> str | None:
        """The name of the attempt that its platform makes after this job; None if it makes none."""
        session = self.session
        return session.next_attempt(self.name) if isinstance(session, RestartsJobs) else None

    def attempts(
        self, notices: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[Job]:
        """Yield this job and, once each has ended, the attempt that its platform makes after it.

        Which is waited for, through the pause of the job's policy.

        notices: called with a sentence about each further attempt. sleep: waits for its creation.
        """
        job, tracking, told = self, self._tracking, ""
        yield job
        while name := job.next_attempt:
            if name != told:
                notices(
                    f"job {job.name} is restarted, from its checkpoints if it has any: job {name}"
                )
                told = name
            following = Job(
                name,
                self.session,
                poll_seconds=self._poll_seconds,
                give_up_seconds=self._give_up_seconds,
                tracking=tracking,
            )
            try:
                following.description()
            except JobNotFound:
                sleep(self._poll_seconds or self.session.poll_seconds)
            else:
                job = following
                yield job

    def stop(self) -> None:
        """Ask the job to stop; its hosts have 120 seconds to save their work."""
        self.session.stop_training_job(TrainingJobName=self.name)

    def wait(
        self,
        logs: Callable[[LogLine], None] | bool | str | None = None,
        states: Callable[[StateChange], None] | None = None,
        notices: Callable[[str], None] | None = None,
        *,
        timeout: float | None = None,
        polls: Callable[[TrainingJobDescription], None] | None = None,
        metrics: Callable[[MetricRecord], None] | None = None,
    ) -> Job:
        """Wait until the job has ended, whatever its outcome.

        logs: called with each line as it appears.
        states: called with each change of state.
        notices: called with a sentence for every idle minute, and when the platform does not
            respond.
        timeout: maximum seconds to wait.
        polls: called with the job's description after each poll of the platform.
        metrics: called with each value of the job's metrics, as `metric_series` has them.

        As in SDK v2, `logs="All"` or True prints lines, states and notices, `"None"` or False only
        notices, and the job's failure or stop is then raised as JobFailed or JobStopped.

        Raises StillRunning at the timeout. After `give_up_seconds` without a response, raises
        Unreachable, CredentialsExpired or the platform's last error. The job continues in all
        cases.
        """
        if isinstance(logs, bool | str):
            shown = prints_logs(logs)
            line, state = (print_line, print_state) if shown else (None, None)
            given = notices or print_notice
            self.wait(line, states or state, given, timeout=timeout, polls=polls, metrics=metrics)
            now = self.description(given)
            for loss in now.get("LocalLosses", ()):
                given(loss)
            self._raise_for_status(now)
            return self
        notices = notices or _discard
        sleep = Deadline(self.name, timeout).sleep
        source = self._patient(notices, sleep)
        tracking, self._tracking = self._tracking, None
        with tracked(self, tracking, notices) as tracker:
            takers = [each for each in (metrics, tracker and tracker.take) if each]
            reader = MetricReader(source.describe(), own=True) if takers else None
            read_logs = callable(logs) or reader is not None
            follower = self._follower(source, sleep, read_logs=read_logs, notices=notices)
            for event in follower.events():
                if isinstance(event, StateChange):
                    if states:
                        states(event)
                elif isinstance(event, Poll):
                    if tracker:
                        tracker.report()
                    if polls:
                        polls(event.description)
                else:
                    if callable(logs):
                        logs(event)
                    for record in reader.read(event) if reader else ():
                        for take in takers:
                            take(record)
            if tracker:
                tracker.status = follower.latest["TrainingJobStatus"]
        self._settle(follower)
        return self

    def raise_for_status(self) -> None:
        """Raise JobFailed or JobStopped if the job ended that way; otherwise return."""
        self._raise_for_status(self.description())

    def failure(self) -> FailureReport | None:
        """Return the cause of a failed job, with the lines that show it; None for any other."""
        return self._failure(self.description())

    def logs(
        self,
        *,
        follow: bool = False,
        group: str | None = None,
        host: str | None = None,
        notices: Callable[[str], None] | None = None,
        polls: Callable[[TrainingJobDescription], None] | None = None,
    ) -> Iterator[LogLine]:
        """Yield the hosts' lines by time, optionally of one group or host.

        follow: continue until the end of the job; notices, polls: as in `wait`.
        """
        hosts = None
        notices = notices or _discard
        if group or host:
            groups = group_of_hosts(self.description(notices if follow else None))
            hosts = select_hosts(groups, group=group, host=host)
        if not follow:
            now = self.description()
            yield from _lines_of(self._log(now, hosts), now)
            return
        source = self._patient(notices)
        follower = self._follower(source, time.sleep, read_logs=True, hosts=hosts, notices=notices)
        for event in follower.events():
            if isinstance(event, LogLine):
                yield event
            elif isinstance(event, Poll) and polls:
                polls(event.description)
        self._settle(follower)

    def summary(self, notices: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Return the outcome as plain values, as `-o json` prints it.

        logs_refused: why the platform did not show the logs, without which there is no data.
        notices: as in `description`.
        """
        now = self.description(notices)
        document, cost, record = self._document(now), self.cost(now), self.record()
        # only training hosts report how the data arrived
        hosts = training_hosts(group_of_hosts(now), document)
        refused: LauncherError | None = None
        log = self._log(now, hosts)
        try:
            texts = (line.text for line in _lines_of(log, now))
            outcome = self._from_logs(lambda: summarise(now, document, texts), log)
        except LauncherError as error:
            outcome, refused = summarise(now, document, ()), error
        return {
            **outcome,
            **_plain_failure(self._failure(now, refused)),
            "logs_refused": str(refused) if refused else None,
            "cost": cost and cost.summary(),
            "record": record and record.to_plain(),
        }

    def record(self) -> JobRecord | None:
        """Return how the job was made; None unless it was sent from this machine, and recently."""
        return read_record(self.session, self.name)

    def cost(self, description: TrainingJobDescription | None = None) -> Bill | None:
        """Return the estimated cost; None for a job on this machine, which costs nothing.

        description: the job's, where it is known already; else the platform is asked.
        """
        return bill(description or self.description()) if self.session.platform.bills else None

    def download_artifacts(
        self, folder: str | Path = ".", progress: FileProgress | None = None
    ) -> list[Path]:
        """Download whichever of model.tar.gz and output.tar.gz the job left; return the files.

        progress: called with a file's name, the bytes copied so far, and its size.
        """
        return download_artifacts(self.session, self.description(), Path(folder), progress)

    def document(self) -> JobDocument | None:
        """Return the job document that was uploaded with the code.

        None when it is gone, belongs to another tool, or has a version that this code cannot read.
        """
        return self._document(self.description())

    def _patient(
        self, notices: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
    ) -> RetryingSession:
        return RetryingSession(
            self._known,
            self.name,
            notify=notices,
            sleep=sleep,
            give_up_seconds=self._give_up_seconds,
            is_transient=self.session.platform.is_transient,
        )

    def _follower(
        self,
        source: RetryingSession,
        sleep: Callable[[float], None],
        *,
        read_logs: bool,
        notices: Callable[[str], None],
        hosts: frozenset[str] | None = None,
    ) -> JobFollower:
        log = None
        poll_seconds = self._poll_seconds or self.session.poll_seconds
        if read_logs:
            merged = MergedLog(
                self.session, self.name, group_of_hosts(source.describe()), hosts=hosts
            )
            log = BackgroundLog(merged, poll_seconds, self.session.platform.is_transient)
        return JobFollower(
            self.name,
            source.describe,
            log=log,
            log_delay_seconds=self.session.log_delay_seconds if log else 0.0,
            notices=notices,
            poll_seconds=poll_seconds,
            sleep=sleep,
        )

    def _end(self) -> TrainingJobDescription:
        """Wait silently for the job's end; return its final description."""
        source = self._patient(_discard)
        return self._follower(source, time.sleep, read_logs=False, notices=_discard).wait_for_end()

    def _raise_for_status(self, now: TrainingJobDescription) -> None:
        if now["TrainingJobStatus"] == "Failed":
            raise _to_error(self.name, now, self._failure(now))
        if now["TrainingJobStatus"] == "Stopped":
            raise JobStopped(self.name, now["SecondaryStatus"])

    def _log(self, now: TrainingJobDescription, hosts: frozenset[str] | None = None) -> MergedLog:
        return MergedLog(self.session, self.name, group_of_hosts(now), hosts=hosts)

    def _failure(
        self, now: TrainingJobDescription, refused: LauncherError | None = None
    ) -> FailureReport | None:
        def read(report: Callable[[], FailureReport], log: MergedLog) -> FailureReport:
            if refused:  # which it would be again, after as long
                raise refused
            return self._from_logs(report, log)

        return failure_of(self.session, now, read=read)

    def _document(self, now: TrainingJobDescription) -> JobDocument | None:
        code = [
            channel["DataSource"]["S3DataSource"]["S3Uri"]
            for channel in now.get("InputDataConfig", [])
            if channel["ChannelName"] == CODE_CHANNEL and "S3DataSource" in channel["DataSource"]
        ]
        try:
            return self._in_time(lambda: self._document_at(code[0] + DOCUMENT_FILE))
        except (IndexError, LauncherError, UnicodeError):
            return None

    def _document_at(self, uri: str) -> JobDocument:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / DOCUMENT_FILE
            self.session.download(uri, copy)
            return JobDocument.from_json(copy.read_text(encoding="utf-8"))

    def _settle(self, follower: JobFollower) -> None:
        """Remember what a follower found, so that the outcome of its job is known in time."""
        self._missing = follower.missing
        self._settled_by = time.monotonic() + _OUTCOME_SECONDS

    def _from_logs(self, read: Callable[[], Result], log: MergedLog) -> Result:
        """Return what is read from the logs; raise what a follower has just found wrong there."""
        if self._missing and self._seconds_left() is not None:
            raise self._missing
        return self._in_time(read, log)

    def _in_time(self, call: Callable[[], Result], log: MergedLog | None = None) -> Result:
        """Return the result of a call, which is not waited for long, least after a job's end.

        log: what the call reads; whose answers show that it goes on.
        """
        left = self._seconds_left()
        if left is not None:
            return within(left, call)
        return within(_OUTCOME_SECONDS, call, lambda: log.answers if log else 0)

    def _seconds_left(self) -> float | None:
        """Return the time for a part of the outcome; None if the job has not just been followed."""
        left = self._settled_by - time.monotonic()
        return max(left, 1.0) if left > -_OUTCOME_SECONDS else None


def _lines_of(log: MergedLog, now: TrainingJobDescription) -> Iterator[LogLine]:
    """Return the lines that the hosts of a described job have printed so far."""
    return log.remaining() if now["TrainingJobStatus"] in TERMINAL_STATUSES else log.snapshot()


def _plain_failure(failure: FailureReport | None) -> dict[str, Any]:
    """Return the failure as plain values; `failed_host` has its host's last lines."""
    if failure is None:
        return {"failure": None, "failed_host": None}
    return {
        "failure": {**failure.to_plain(), "lines": list(failure.lines)},
        "failed_host": failure.failed_host,
    }


def _to_error(name: str, now: TrainingJobDescription, failure: FailureReport | None) -> JobFailed:
    reason = now.get("FailureReason", "no reason was given")
    return JobFailed(
        name,
        reason,
        host=failure.host if failure else None,
        last_lines=failure.printed if failure else (),
        report=printable(failure.text if failure else reason, keep_styles=False),
    )


def _discard(_notice: str) -> None:
    """Discard a notice."""

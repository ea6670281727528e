"""A conformance suite for sessions: numbered clauses, each a function of the session under test.

    under_test = SessionUnderTest(open=MySession, fields={"role": "arn:aws:iam::...:role/Mine"})
    check_session(under_test)                            # every clause, or

    @pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
    def test_clause(clause):
        clause(under_test)

A clause raises ClauseBroken. Its jobs run `PROGRAM`, which obeys the environment variable
`TASK_VARIABLE`; a session that runs nothing reads the variable from the request and pretends.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.request import Submission
from launcher.client.sessions.base import TERMINAL_STATUSES, LogEvent, PlatformSession, is_session
from launcher.client.sessions.job_names import new_job_name
from launcher.client.sessions.placed_job import place_job
from launcher.client.spec import JobSpec
from launcher.errors import JobNotFound, LauncherError
from launcher.shared import TOKEN_VARIABLE

__all__ = [
    "CLAUSES",
    "FAIL",
    "LINES",
    "TASK_VARIABLE",
    "WAIT",
    "ClauseBroken",
    "SessionUnderTest",
    "check_session",
]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launcher.shared import TrainingJobDescription

#: The environment variable with the task of a clause's job: COMPLETE, FAIL or WAIT.
TASK_VARIABLE = "LAUNCHER_CONFORMANCE_TASK"
COMPLETE, FAIL, WAIT = "complete", "fail", "wait"
#: The lines that every job of a clause prints, whatever its task.
LINES = tuple(f"line {number} of the conformance suite" for number in range(5))
PROGRAM = f"""\
import os, sys, time
for number in range({len(LINES)}):
    print(f"line {{number}} of the conformance suite", flush=True)
if os.environ["{TASK_VARIABLE}"] == "{WAIT}":
    time.sleep(3600)
if os.environ["{TASK_VARIABLE}"] == "{FAIL}":
    sys.exit("this job fails as it was asked to")
"""
#: More than a platform prints beside a clause's lines: a log that is read again has no end.
_MOST_EVENTS = 20_000
_UNKNOWN = "never-made-by-the-conformance-suite"


class ClauseBroken(AssertionError):
    """A session does not keep a clause."""


@dataclass(frozen=True, kw_only=True)
class SessionUnderTest:
    """Facts about a session that the clauses need.

    open: returns a session; each call another session of the same platform, where it can have two.
    fields: of the specs of the clauses' jobs: role, image_uri, instance_type, ...
    patience_seconds: the longest time for a job to reach a state.
    """

    open: Callable[[], PlatformSession]
    fields: Mapping[str, Any] = field(default_factory=dict)
    patience_seconds: float = 120.0

    def prepared(
        self, session: PlatformSession, task: str = COMPLETE, **fields: object
    ) -> Submission:
        """Return a job with a task, ready to be sent; nothing is stored yet."""
        given = {"instance_type": "ml.c5.xlarge", "instance_count": 1, **self.fields, **fields}
        own = {
            "entry_point": "train.py",
            "source_dir": _folder_of_program(),
            "environment": {**given.get("environment", {}), TASK_VARIABLE: task},
            "base_job_name": "conformance",
        }
        spec = JobSpec(**{**given, **own})
        return place_job(spec, session, new_job_name(spec)).submission

    def sent(self, session: PlatformSession, task: str = COMPLETE, **fields: object) -> str:
        """Create a job with a task; return its name."""
        submission = self.prepared(session, task, **fields)
        session.check_training_job(submission.request, submission.objects.keys())
        upload_all(session, submission)
        answer = session.create_training_job(**submission.request)
        name = str(submission.request["TrainingJobName"])
        _require(name in str(answer.get("TrainingJobArn")), f"no ARN of {name} in {answer}")
        return name

    def ended(self, session: PlatformSession, name: str) -> TrainingJobDescription:
        """Wait for the end of a job and return its description."""
        return self._reached(session, name, lambda now: now["TrainingJobStatus"] in _ENDED)

    def training(self, session: PlatformSession, name: str) -> TrainingJobDescription:
        """Wait until a job is in training and return its description."""
        return self._reached(session, name, lambda now: now["SecondaryStatus"] == "Training")

    def _reached(
        self, session: PlatformSession, name: str, is_reached: Callable[[Mapping[str, Any]], bool]
    ) -> TrainingJobDescription:
        deadline = time.monotonic() + self.patience_seconds
        while not is_reached(now := session.describe_training_job(TrainingJobName=name)):
            where = f"{now['TrainingJobStatus']}/{now['SecondaryStatus']}"
            _require(now["TrainingJobStatus"] not in _ENDED, f"job {name} ended early: {where}")
            _require(time.monotonic() < deadline, f"job {name} is still {where}")
            time.sleep(session.poll_seconds)
        return now


_ENDED = TERMINAL_STATUSES


@functools.cache
def _folder_of_program() -> str:
    """Return a folder with the clauses' program, which is packed when it is uploaded."""
    folder = tempfile.mkdtemp(prefix="launcher-conformance-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Path(folder, "train.py").write_text(PROGRAM, encoding="utf-8")
    return folder


def upload_all(session: PlatformSession, submission: Submission) -> None:
    """Store all objects of a submission."""
    with submission.written() as contents:
        for uri, content in contents.items():
            session.upload(content, uri)


def clause_1_a_job_runs_to_its_end(under_test: SessionUnderTest) -> None:
    """Creation returns an ARN; the job completes, with its times."""
    session = under_test.open()
    now = under_test.ended(session, under_test.sent(session))
    _require(now["TrainingJobStatus"] == "Completed", f"it ended as {now['TrainingJobStatus']}")
    _require(now["SecondaryStatus"] == "Completed", f"it ended as {now['SecondaryStatus']}")
    for moment in ("CreationTime", "TrainingStartTime", "TrainingEndTime"):
        _require(now[moment].tzinfo is not None, f"{moment} has no time zone")
    _require(now["CreationTime"] <= now["TrainingEndTime"], "it ended before it was created")


def clause_1_a_program_that_fails(under_test: SessionUnderTest) -> None:
    """A job whose program fails ends as Failed, with a reason."""
    session = under_test.open()
    now = under_test.ended(session, under_test.sent(session, FAIL))
    _require(now["TrainingJobStatus"] == "Failed", f"it ended as {now['TrainingJobStatus']}")
    _require(bool(now.get("FailureReason")), "there is no FailureReason")


def clause_2_a_name_is_used_once(under_test: SessionUnderTest) -> None:
    """A name that was ever used is refused, and the first job is not touched."""
    session = under_test.open()
    submission = under_test.prepared(session)
    upload_all(session, submission)
    session.create_training_job(**submission.request)
    name = submission.request["TrainingJobName"]
    before = under_test.ended(session, name)
    with _refused(LauncherError, "a second job of the same name"):
        session.create_training_job(**submission.request)
    after = session.describe_training_job(TrainingJobName=name)
    _require(after == before, "the refused creation changed the first job")


def clause_2_an_impossible_request(under_test: SessionUnderTest) -> None:
    """A request that the platform cannot run is refused, and no job is created."""
    session = under_test.open()
    request = under_test.prepared(session).request.copy()
    request["StoppingCondition"] = {"MaxRuntimeInSeconds": 0}
    _require(bool(session.platform.judge(request)), "`judge` accepts 0 seconds of runtime")
    with _refused(LauncherError, "a request with 0 seconds of runtime"):
        session.create_training_job(**request)
    with _refused(JobNotFound, "the name of a refused job"):
        session.describe_training_job(TrainingJobName=request["TrainingJobName"])


def clause_3_anyone_can_describe_a_job(under_test: SessionUnderTest) -> None:
    """Another session describes the job, echoes its request, and its end is final."""
    session, other = under_test.open(), under_test.open()
    submission = under_test.prepared(session)
    upload_all(session, submission)
    session.create_training_job(**submission.request)
    now = under_test.ended(other, submission.request["TrainingJobName"])
    for part in ("OutputDataConfig", "ResourceConfig", "StoppingCondition", "RoleArn"):
        wanted: object = submission.request.get(part)
        found: object = now.get(part)
        is_echoed = (
            wanted.items() <= found.items()
            if isinstance(wanted, dict) and isinstance(found, dict)
            else wanted == found
        )
        _require(is_echoed, f"{part} is {found}, and the request has {wanted}")
    again = session.describe_training_job(TrainingJobName=submission.request["TrainingJobName"])
    _require(again == now, "the description of a job that has ended changed")


def clause_3_the_token_is_redacted(under_test: SessionUnderTest) -> None:
    """A description does not reveal the job's secret."""
    session = under_test.open()
    submission = under_test.prepared(session, instance_count=2)
    token = submission.request["Environment"][TOKEN_VARIABLE]
    upload_all(session, submission)
    session.create_training_job(**submission.request)
    now = under_test.ended(session, submission.request["TrainingJobName"])
    _require(token not in str(now), f"the job's token is in the description ({TOKEN_VARIABLE})")


def clause_4_a_job_is_stopped(under_test: SessionUnderTest) -> None:
    """A stop may be repeated, ends the job as Stopped, and changes nothing after the end."""
    session = under_test.open()
    name = under_test.sent(session, WAIT)
    under_test.training(session, name)
    session.stop_training_job(TrainingJobName=name)
    session.stop_training_job(TrainingJobName=name)
    stopping = session.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
    _require(stopping in ("Stopping", "Stopped"), f"after a stop, its status is {stopping}")
    now = under_test.ended(session, name)
    _require(now["TrainingJobStatus"] == "Stopped", f"it ended as {now['TrainingJobStatus']}")
    session.stop_training_job(TrainingJobName=name)
    after = session.describe_training_job(TrainingJobName=name)
    _require(after == now, "a stop after the end changed the job")


def clause_5_unknown_names(under_test: SessionUnderTest) -> None:
    """Every method that takes a name raises JobNotFound for an unknown one."""
    session = under_test.open()
    calls: dict[str, Callable[[], object]] = {
        "describe": lambda: session.describe_training_job(TrainingJobName=_UNKNOWN),
        "stop": lambda: session.stop_training_job(TrainingJobName=_UNKNOWN),
        "log_streams": lambda: session.log_streams(_UNKNOWN),
        "read_log": lambda: session.read_log(_UNKNOWN, f"{_UNKNOWN}/algo-1"),
    }
    for method, call in calls.items():
        with _refused(JobNotFound, f"an unknown name in {method}"):
            call()


def clause_6_logs(under_test: SessionUnderTest) -> None:
    """A log is complete after the end, its times never decrease, and it can be read in pieces."""
    session = under_test.open()
    name = under_test.sent(session)
    under_test.ended(session, name)
    time.sleep(session.log_delay_seconds)
    streams = session.log_streams(name)
    _require([each.host for each in streams] == ["algo-1"], f"the streams are {streams}")
    whole = _events(session, name, streams[0].name, limit=10_000)
    _require(whole == _events(session, name, streams[0].name, limit=2), "in pieces it is another")
    texts = [event.text for event in whole]
    _require([text for text in texts if text in LINES] == list(LINES), f"the log is {texts}")
    times = [event.time for event in whole]
    _require(times == sorted(times), f"its times decrease: {times}")


def clause_7_the_platform(under_test: SessionUnderTest) -> None:
    """`platform` is a Platform, and agrees with what the session does."""
    session = under_test.open()
    _require(is_session(session), "`platform` is not a launcher.client.sessions.base.Platform")
    platform, location = session.platform, session.default_location()
    _require(dataclasses.is_dataclass(platform), "`platform` is not a value")
    _require(location.startswith(f"{platform.uri_scheme}://"), f"default_location: {location}")
    _require(not location.endswith("/"), f"default_location ends with a slash: {location}")
    violations = platform.judge(under_test.prepared(session).request)
    errors = [found.what for found in violations if not found.is_warning]
    _require(not errors, f"`judge` refuses a request that runs: {errors}")
    name = under_test.sent(session)
    notes = session.place_notes(session.describe_training_job(TrainingJobName=name))
    _require(bool(notes) and notes[0].startswith("on "), f"place_notes: {notes}")


def clause_8_objects(under_test: SessionUnderTest) -> None:
    """An object is downloaded as it was uploaded; an absent one raises and leaves no file."""
    session = under_test.open()
    uri = f"{session.default_location()}/conformance/{time.time_ns()}/object"
    content = bytes(range(256)) * 1000
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.write_bytes(content)
        for given in (source, content):
            session.upload(given, uri)
        copied: list[int] = []
        copy = Path(folder) / "copy"
        session.download(uri, copy, lambda done, _total: copied.append(done))
        _require(copy.read_bytes() == content, f"{uri} is not what was uploaded")
        _require(copied[-1:] == [len(content)], f"the last progress is {copied[-1:]}")
        absent = Path(folder) / "absent"
        with _refused(LauncherError, "an absent object"):
            session.download(f"{uri}-absent", absent)
        _require(not absent.exists(), "a failed download leaves a file")


def clause_9_lists(under_test: SessionUnderTest) -> None:
    """Jobs are listed newest first, by name and status, at most `limit`."""
    session = under_test.open()
    names = [under_test.sent(session), under_test.sent(session, FAIL)]
    for name in names:
        under_test.ended(session, name)

    def listed(**filters: Any) -> list[str]:
        answer = session.list_training_jobs(**filters)
        return [job["TrainingJobName"] for job in answer["TrainingJobSummaries"]]

    found = [name for name in listed(NameContains="conformance") if name in names]
    _require(found == names[::-1], f"newest first it is {names[::-1]}, and the list has {found}")
    _require(listed(NameContains=names[0]) == names[:1], "NameContains finds more, or less")
    failed = listed(NameContains="conformance", StatusEquals="Failed")
    _require(names[1] in failed and names[0] not in failed, f"of Failed: {failed}")
    _require(len(listed(limit=1)) == 1, "limit=1 returns another number of jobs")


#: Every clause, in their order.
CLAUSES: tuple[Callable[[SessionUnderTest], None], ...] = (
    clause_1_a_job_runs_to_its_end,
    clause_1_a_program_that_fails,
    clause_2_a_name_is_used_once,
    clause_2_an_impossible_request,
    clause_3_anyone_can_describe_a_job,
    clause_3_the_token_is_redacted,
    clause_4_a_job_is_stopped,
    clause_5_unknown_names,
    clause_6_logs,
    clause_7_the_platform,
    clause_8_objects,
    clause_9_lists,
)


def check_session(under_test: SessionUnderTest) -> None:
    """Check every clause; raise ClauseBroken with all that are broken."""
    broken = [
        f"{clause.__name__}: {problem}"
        for clause in CLAUSES
        if (problem := _problem(clause, under_test))
    ]
    if broken:
        raise ClauseBroken("\n".join(broken))


def _problem(clause: Callable[[SessionUnderTest], None], under_test: SessionUnderTest) -> str:
    try:
        clause(under_test)
    except (ClauseBroken, LauncherError) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 (a wrong session may raise anything)
        return f"{type(error).__name__}: {error}"
    return ""


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ClauseBroken(otherwise)


@contextmanager
def _refused(error: type[LauncherError], what: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise ClauseBroken(f"{what} does not raise {error.__name__}")


def _events(session: PlatformSession, name: str, stream: str, *, limit: int) -> list[LogEvent]:
    """Return all events of a stream, read `limit` at a time."""
    events: list[LogEvent] = []
    position: str | None = None
    while True:
        more, position = session.read_log(name, stream, position, limit)
        _require(len(more) <= limit, f"{len(more)} events with limit={limit}")
        if not more:
            return events
        events += more
        _require(
            len(events) <= _MOST_EVENTS, f"the log has no end: {more[-1].text!r} at {position}"
        )

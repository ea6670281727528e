"""Every session keeps the clauses of the seam: ours, and one that an outsider's package brings."""

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher import AwsSession, LocalSession, MemoryRun, MemorySession
from launcher.client.endpoint import serve
from launcher.client.sessions import (
    CLAUSES,
    FAIL,
    LINES,
    TASK_VARIABLE,
    WAIT,
    ClauseBroken,
    SessionUnderTest,
    check_session,
    clause_5_unknown_names,
    clause_6_logs,
    clause_9_lists,
    conformance,
    open_session,
)

PAGE = Path(__file__).parents[2] / "docs" / "sessions.md"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/any:1"


def played(request):
    """What the suite's program would do, for a session that runs nothing."""
    task = request["Environment"][TASK_VARIABLE]
    failure = "as it was asked to" if task == FAIL else None
    return MemoryRun(lines=LINES, failure=failure, is_endless=task == WAIT)


def course(request):
    """The same in the words of the attic."""
    task = request["Environment"][TASK_VARIABLE]
    return LINES, {FAIL: "as it was asked to", WAIT: ""}.get(task)


@contextmanager
def local(folder):
    yield SessionUnderTest(open=lambda: LocalSession(folder / "home", "process"))


@contextmanager
def aws(folder):
    """SageMaker as moto's server answers for it, with this machine behind it."""
    with serve(folder / "endpoint") as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in endpoint.environment.items():
            patch.setenv(name, value)
        fields = {"role": "LauncherLocalRole", "image_uri": IMAGE}
        yield SessionUnderTest(open=AwsSession, fields=fields)


@contextmanager
def memory(_folder):
    session = open_session("memory", play=played)
    yield SessionUnderTest(open=lambda: session)


@contextmanager
def attic(_folder):
    shelf = {}
    yield SessionUnderTest(open=lambda: open_session("attic", course=course, shelf=shelf))


@pytest.fixture(scope="module")
def opened(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("session")) as under_test:
        yield under_test


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(local, marks=pytest.mark.long, id="local"),
        pytest.param(aws, marks=pytest.mark.long, id="aws"),
        memory,
        attic,
    ],
    indirect=True,
    ids=lambda p: p.__name__,
)
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda each: each.__name__)
@pytest.mark.usefixtures("attic")
def test_clause(opened, clause):
    clause(opened)


@pytest.mark.long
def test_a_session_that_breaks_clauses_gets_their_list():
    class Forgetful(MemorySession):
        def download(self, uri, path, progress=None):
            path.touch()

    session = Forgetful(played)
    with pytest.raises(ClauseBroken) as broken:
        check_session(SessionUnderTest(open=lambda: session))
    (line,) = str(broken.value).splitlines()
    assert line.startswith("clause_8_objects: memory://storage/conformance/")


def test_a_session_that_raises_anything_gets_the_list_too(monkeypatch):
    class Unfinished(MemorySession):
        def list_training_jobs(self, **filters):
            raise NotImplementedError("no lists yet")

    monkeypatch.setattr(conformance, "CLAUSES", (clause_5_unknown_names, clause_9_lists))
    session = Unfinished(played)
    with pytest.raises(ClauseBroken) as broken:
        check_session(SessionUnderTest(open=lambda: session))
    assert str(broken.value) == "clause_9_lists: NotImplementedError: no lists yet"


def test_a_log_that_begins_anew_is_found_at_once():
    class Repeating(MemorySession):
        def read_log(self, job_name, stream, position=None, limit=10_000):
            return super().read_log(job_name, stream, None, limit)

    session = Repeating(played)
    with pytest.raises(ClauseBroken, match="the log has no end: 'line 4"):
        clause_6_logs(SessionUnderTest(open=lambda: session))


def test_a_job_may_need_variables_of_its_session():
    session = MemorySession(played)
    under_test = SessionUnderTest(open=lambda: session, fields={"environment": {"QUEUE": "fast"}})
    name = under_test.sent(session, WAIT)
    assert session.requests[name]["Environment"] == {"QUEUE": "fast", TASK_VARIABLE: WAIT}


def test_every_clause_has_a_sentence():
    assert all(clause.__doc__ for clause in CLAUSES)


@pytest.mark.long
def test_the_page_shows_a_test_that_passes(tmp_path):
    _, check = PAGE.read_text().split("## Check it")
    (tmp_path / "test_mine.py").write_text(re.search(r"```python\n(.*?)```", check, re.S)[1])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert f"{len(CLAUSES)} passed" in run.stdout, run.stdout

"""Every session keeps the clauses of the seam: ours, and one that an outsider's package brings."""

from contextlib import contextmanager

import pytest

from launcher import AwsSession, LocalSession, MemoryRun, MemorySession
from launcher.client.endpoint import serve
from launcher.client.sessions.conformance import (
    CLAUSES,
    FAIL,
    LINES,
    TASK_VARIABLE,
    WAIT,
    ClauseBroken,
    SessionUnderTest,
    check_session,
)
from launcher.client.sessions.registry import open_session

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
    "opened", [local, aws, memory, attic], indirect=True, ids=lambda p: p.__name__
)
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda each: each.__name__)
@pytest.mark.usefixtures("attic")
def test_clause(opened, clause):
    clause(opened)


def test_a_session_that_breaks_clauses_is_told_which():
    class Forgetful(MemorySession):
        def download(self, uri, path, progress=None):
            path.touch()

    session = Forgetful(played)
    with pytest.raises(ClauseBroken) as broken:
        check_session(SessionUnderTest(open=lambda: session))
    (line,) = str(broken.value).splitlines()
    assert line.startswith("clause_8_objects: memory://storage/conformance/")


def test_every_clause_has_a_sentence():
    assert all(clause.__doc__ for clause in CLAUSES)

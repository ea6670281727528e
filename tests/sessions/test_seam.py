"""Nothing outside sessions/ asks which session it has, but through `platform`."""

import re
from pathlib import Path

import pytest

import launcher.client
from launcher import LocalSession
from launcher.client.sessions import SessionUnderTest
from launcher.errors import RequestRefused

CLIENT = Path(launcher.client.__file__).parent
QUESTIONS = re.compile(
    r"LocalIsolation|LOCAL_REGION|on_aws|isinstance\([^)]*(Local|Aws|Memory)Session"
    r"|hasattr\([^)]*(session|given)|default_location\(\)\)? *=="
    r"|uri_scheme|platform\.name *[!=]="
)


def test_nobody_asks_local_or_aws():
    asked = [
        f"{file.relative_to(CLIENT)}:{number}"
        for file in CLIENT.rglob("*.py")
        if file.relative_to(CLIENT).parts[0] != "sessions"
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if QUESTIONS.search(line)
    ]
    assert asked == []


def test_a_machine_without_linux_refuses_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    session = LocalSession(tmp_path / "home", "process")
    submission = SessionUnderTest(open=lambda: session).prepared(session)
    with pytest.raises(RequestRefused, match="local jobs need Linux, but this is darwin"):
        session.create_training_job(**submission.request)
    assert session.list_training_jobs()["TrainingJobSummaries"] == []


def test_this_machine_refuses_what_breaks_the_limits_of_sagemaker(tmp_path):
    session = LocalSession(tmp_path / "home", "process")
    submission = SessionUnderTest(open=lambda: session).prepared(session)
    request = {**submission.request, "Tags": [{"Key": "", "Value": "x"}]}
    with pytest.raises(RequestRefused, match="Tags") as refused:
        session.check_training_job(request, submission.objects.keys())
    assert len(refused.value.problems) == 1
    with pytest.raises(RequestRefused):
        session.create_training_job(**request)
    session.check_training_job(submission.request, submission.objects.keys())

"""`launcher stop` in an account that others use: only this machine's jobs, after a question."""

import json

import pytest
from click.testing import CliRunner
from front import Answer

from launcher.client.cli import main
from launcher.client.submit import draft_job

NAMES = ("theirs-1", "mine-1", "mine-2")


@pytest.fixture
def stop(front, session, spec, past, prepared):
    """`launcher stop` beside the jobs mine-1, mine-2 of this machine, and theirs-1; all run."""
    for name in ("mine-1", "mine-2"):
        draft_job(spec, session, name).send()
    request = prepared("theirs-1").request
    past("sagemaker").create_training_job(**{**request, "TrainingJobName": "theirs-1"})
    front.rewrite, front.lacking = _running, frozenset({"StopTrainingJob"})

    def stop(*words, **typed):
        front.meet("ListTrainingJobs", Answer({"TrainingJobSummaries": [*map(_summary, NAMES)]}))
        return CliRunner().invoke(main, ["stop", *words], catch_exceptions=False, **typed)

    return stop


def _running(call, answer):
    status, headers, content = answer
    if call.operation == "DescribeTrainingJob" and status == 200:
        fields = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}
        gone = {"TrainingEndTime", "ModelArtifacts"}
        kept = {key: each for key, each in json.loads(content).items() if key not in gone}
        content = json.dumps({**kept, **fields}).encode()
    return status, headers, content


def _summary(name):
    arn = f"arn:aws:sagemaker:eu-west-1:123456789012:training-job/{name}"
    times = {"CreationTime": 1.7e9, "LastModifiedTime": 1.7e9}
    return {
        "TrainingJobName": name,
        "TrainingJobArn": arn,
        "TrainingJobStatus": "InProgress",
        **times,
    }


def stopped(front):
    """The jobs that have been stopped since this was asked last; all run again."""
    calls = front.of("StopTrainingJob")
    front.calls.clear()
    return sorted(json.loads(call.body)["TrainingJobName"] for call in calls)


def test_several_are_stopped_that_this_machine_sent_or_any(stop, front):
    result = stop("--all", "--cloud", "--yes")
    assert result.exit_code == 0, result.stderr
    assert stopped(front) == ["mine-1", "mine-2"]
    assert "This machine did not send these, --any stops them: theirs-1" in result.stderr
    assert stop("--all", "--cloud", "--any", "--yes").exit_code == 0
    assert stopped(front) == ["mine-1", "mine-2", "theirs-1"]


def test_several_need_a_yes_where_nobody_is_asked(stop, front):
    for words in (("--all", "--cloud"), ("mine-1", "mine-2"), ("--all", "--cloud", "-o", "json")):
        result = stop(*words)
        assert result.exit_code == 2
        assert "  mine-1\n" in result.stderr + "\n"
        assert "--yes" in result.stderr
        assert stopped(front) == []


def test_one_that_others_sent_stops_none_of_several(stop, front):
    result = stop("mine-1", "theirs-1", "--yes")
    assert (result.exit_code, stopped(front)) == (2, [])
    assert "this machine did not send theirs-1" in result.stderr
    assert stop("mine-1", "theirs-1", "--any", "--yes").exit_code == 0
    assert stopped(front) == ["mine-1", "theirs-1"]


def test_one_job_is_stopped_at_once_by_its_whole_name_alone(stop, front):
    for part in ("mine", "mine-", "theirs", "latest", "-1", "mine-*"):
        result = stop("--cloud", "--yes", "--", part)
        assert (result.exit_code, stopped(front)) == (2, []), part
    assert stop("theirs-1").exit_code == 0
    assert stopped(front) == ["theirs-1"]


def test_on_a_terminal_the_user_is_asked(stop, front, monkeypatch):
    monkeypatch.setattr("launcher.client.cli.screen.verb_output.can_ask", lambda: True)
    for typed, ended in (("n\n", []), ("\n", []), ("y\n", ["mine-1", "mine-2"])):
        result = stop("--all", "--cloud", input=typed)
        assert "Stop all 2? [y/N]" in result.stderr
        assert stopped(front) == ended
        assert result.exit_code == (0 if ended else 2)

"""launcher run --secret: the value reaches the hosts, and nothing that is kept or shown."""

import json

import pytest

from launcher import AwsSession, Estimator, JobSpec, SpecError

ARN = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:training/token-AbCdEf"
PRINTS = """\
import os
print("the token is", os.environ["TOKEN"], "of", len(os.environ["TOKEN"]))
if "FAIL" in os.environ:
    raise ValueError(os.environ["TOKEN"])
"""
VALUE = "hunter2-very-secret"


def files_with(folder, text):
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return [str(file) for file in files if text.encode() in file.read_bytes()]


@pytest.mark.long
@pytest.mark.parametrize("is_failing", [False, True], ids=["completed", "failed"])
def test_the_value_is_in_nothing_that_is_kept_or_shown(terminal, monkeypatch, is_failing):
    monkeypatch.setenv("TOKEN", VALUE)
    options = ["--env", "FAIL=1"] if is_failing else []
    job = terminal.write(PRINTS)
    shown = [terminal("run", job, "--local", "--name", "job-1", "--secret", "TOKEN", *options)]
    assert f"the token is *** of {len(VALUE)}" in shown[0].stderr
    shown += [
        terminal("status", "job-1", "-v"),
        terminal("status", "job-1", "-o", "json"),
        terminal("logs", "job-1", "-v"),
        terminal("list", "-o", "json"),
        terminal("rerun", "job-1", "--name", "job-2"),
    ]
    assert "the token is ***" in shown[-1].stderr
    assert not [each for each in shown if "hunter2" in each.stdout + each.stderr]
    assert files_with(terminal.home, "hunter2") == []
    assert json.loads(shown[2].stdout)["record"]["command_line"].count("--secret") == 1


@pytest.mark.long
def test_an_arn_is_read_on_aws_alone_and_here_the_value_is_the_users(terminal, monkeypatch):
    monkeypatch.setenv("TOKEN", VALUE)
    job = terminal.write(PRINTS, f"{terminal.one_host}secrets: {{TOKEN: '{ARN}'}}\n")
    result = terminal("run", job, "--local", "--name", "job-1")
    assert f"the token is *** of {len(VALUE)}" in result.stderr


@pytest.mark.long
def test_a_rerun_needs_the_value_again(terminal, monkeypatch):
    monkeypatch.setenv("TOKEN", VALUE)
    terminal("run", terminal.write(PRINTS), "--local", "--name", "job-1", "--secret", "TOKEN")
    monkeypatch.delenv("TOKEN")
    result = terminal("rerun", "job-1")
    assert result.exit_code == 2
    assert "the secret TOKEN is not in your environment" in result.stderr

    monkeypatch.setenv("TOKEN", VALUE)
    for number, source in enumerate(("env", ARN), start=2):
        words = ("--name", f"job-{number}", "--set", f"secrets.TOKEN={source}")
        assert f"the token is *** of {len(VALUE)}" in terminal("rerun", "job-1", *words).stderr
    none = terminal("rerun", "job-1", "--name", "job-4", "--set", "secrets={}")
    assert none.exit_code == 1  # its script needs the variable


@pytest.mark.parametrize(
    ("words", "value", "message"),
    [
        pytest.param("TOKEN", None, "the secret TOKEN is not in your environment", id="not set"),
        pytest.param("TOKEN", "abc", "could not be kept out of the logs", id="too short"),
        pytest.param("TOKEN=hunter2-x", None, "TOKEN is neither env nor an ARN", id="bare"),
        pytest.param("hunter2 x", None, "that no environment variable can have", id="a name"),
    ],
)
def test_what_is_refused_is_not_shown_and_nothing_is_made(
    terminal, monkeypatch, words, value, message
):
    monkeypatch.delenv("TOKEN", raising=False)
    if value:
        monkeypatch.setenv("TOKEN", value)
    result = terminal("run", terminal.write(), "--local", "--secret", words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "hunter2" not in result.stderr
    assert not (terminal.home / "jobs").exists()


# On AWS -----------------------------------------------------------------------------------------

AWS = {
    "image_uri": "111122223333.dkr.ecr.eu-west-1.amazonaws.com/image:1",
    "role": "arn:aws:iam::111122223333:role/Training",
    "instance_type": "ml.g5.xlarge",
    "output_path": "s3://my-bucket/output",
}


@pytest.fixture
def source(tmp_path):
    (tmp_path / "train.py").write_text(PRINTS)
    return tmp_path


def estimator(source, **fields):
    return Estimator(entry_point="train.py", source_dir=str(source), **AWS, **fields)


def test_a_request_has_the_arn_alone(source):
    made = estimator(source, secrets={"TOKEN": ARN}, environment={"A": "1"})
    assert made.request("job-1")["Environment"] == {"A": "1", "LAUNCHER_SECRET_TOKEN": ARN}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"secrets": {"TOKEN": "env"}},
            "the secret TOKEN needs the ARN of a secret of Secrets Manager: a value in the request "
            "could be read by everybody who may describe the job",
            id="a value of the environment",
        ),
        pytest.param(
            {"secrets": {"TOKEN": "hunter2-x"}}, "neither env nor an ARN", id="a bare value"
        ),
        pytest.param(
            {"secrets": {"TOKEN": ARN}, "enable_network_isolation": True},
            "with network isolation the hosts cannot read the secrets TOKEN",
            id="network isolation",
        ),
        pytest.param(
            {"secrets": {"TOKEN": ARN}, "environment": {"TOKEN": "x"}},
            "TOKEN is in environment, too",
            id="twice",
        ),
        pytest.param(
            {"environment": {"LAUNCHER_SECRET_TOKEN": ARN}},
            "LAUNCHER_SECRET_TOKEN is set by Launcher itself",
            id="by hand",
        ),
        pytest.param(
            {
                "secrets": {"TOKEN": ARN},
                "distribution": {"smdistributed": {"dataparallel": {"enabled": True}}},
            },
            "secrets are read by Launcher, which this job does not start",
            id="AWS's toolkit",
        ),
    ],
)
def test_what_aws_cannot_have_is_refused_with_the_reason(source, fields, message):
    with pytest.raises(SpecError) as refused:
        estimator(source, **fields).request("job-1")
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.long
def test_nothing_is_created_for_a_secret_that_aws_cannot_have(source, aws, make_role, monkeypatch):
    monkeypatch.setenv("TOKEN", VALUE)
    made = estimator(source, secrets={"TOKEN": "env"}, sagemaker_session=AwsSession())
    with pytest.raises(SpecError, match="needs the ARN of a secret"):
        made.fit(job_name="job-1", wait=False)
    assert aws("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


def test_an_estimator_of_a_described_job_has_its_secrets(source):
    from launcher.client.estimator import constructor_arguments

    request = estimator(source, secrets={"TOKEN": ARN}).request("job-1")
    arguments = constructor_arguments(request, None)
    assert arguments["secrets"] == {"TOKEN": ARN}
    assert arguments["environment"] == {}


def test_a_job_file_keeps_them():
    spec = JobSpec(entry_point="train.py", instance_type="local", secrets={"A": "env", "B": ARN})
    assert JobSpec.from_yaml(spec.to_yaml()) == spec

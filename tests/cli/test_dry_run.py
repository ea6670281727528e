"""launcher run --dry-run, and everything that is refused before a job exists."""

import json

import pytest

CLOUD_JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.m5.xlarge
instance_count: 2
"""
PLACES = """\
image_uri: 111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1
role: arn:aws:iam::111122223333:role/Training
output_path: s3://my-bucket/output
"""


def test_the_request_is_printed_and_nothing_else_happens(terminal):
    job = terminal.write(job=CLOUD_JOB + PLACES)
    result = terminal("run", job, "--dry-run", "--name", "job-1")
    assert result.exit_code == 0, result.stderr
    request = json.loads(result.stdout)
    assert request["TrainingJobName"] == "job-1"
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert request["OutputDataConfig"] == {"S3OutputPath": "s3://my-bucket/output"}
    code = request["InputDataConfig"][-1]["DataSource"]["S3DataSource"]["S3Uri"]
    assert code == "s3://my-bucket/output/job-1/code/"
    assert not terminal.home.exists()


def test_a_model_that_is_cut_is_checked_against_the_ranks_of_the_job(terminal):
    job = terminal.write(
        job=CLOUD_JOB + PLACES + "distribution: {model_parallel: {partitions: 2}}\n"
    )
    assert terminal("run", job, "--local", "--dry-run").exit_code == 0
    change = "distribution.model_parallel.partitions=4"
    refused = terminal("run", job, "--local", "--dry-run", "--set", change)
    assert refused.exit_code == 2
    assert "partitions is 4, which does not divide the ranks: 2" in refused.stderr
    assert f"--set {change}" in refused.stderr


def test_the_token_is_not_printed(terminal):
    result = terminal("run", terminal.write(job=CLOUD_JOB + PLACES), "--dry-run")
    assert json.loads(result.stdout)["Environment"] == {"LAUNCHER_TOKEN": "<redacted>"}


def test_what_the_spec_leaves_open_is_listed(terminal):
    result = terminal("run", terminal.write(job=CLOUD_JOB), "--dry-run")
    assert result.exit_code == 2
    assert result.stdout == ""
    for field in ("image_uri", "role", "output_path"):
        assert f"the request needs {field}" in result.stderr
        assert f"--set {field}=" in result.stderr


def test_with_local_the_request_is_the_one_that_this_machine_would_run(terminal):
    job = terminal.write(job=CLOUD_JOB + PLACES)
    result = terminal("run", job, "--dry-run", "--local")
    output = json.loads(result.stdout)["OutputDataConfig"]["S3OutputPath"]
    assert output.startswith(f"file://{terminal.home}")


def test_every_problem_of_a_spec_is_reported_with_its_line(terminal):
    job = terminal.write(job=terminal.one_host + "hyperparametres: {a: 1}\nmax_run: -1\n")
    result = terminal("run", job, "--local")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "job.yaml:5" in result.stderr
    assert "hyperparameters" in result.stderr  # the near-miss
    assert "job.yaml:6" in result.stderr


def test_with_json_an_error_is_an_answer(terminal):
    result = terminal(
        "run", terminal.write(job=terminal.one_host + "max_run: -1\n"), "--local", "-o", "json"
    )
    answer = json.loads(result.stdout)
    assert result.exit_code == answer["exit_code"] == 2
    assert answer["error"]["type"] == "SpecError"
    (problem,) = answer["error"]["problems"]
    assert set(problem) == {"what", "where", "fix"}


@pytest.mark.parametrize(
    "name", [pytest.param("my_job", id="underscore"), pytest.param("a" * 64, id="too long")]
)
def test_an_illegal_name_is_refused(terminal, name):
    result = terminal("run", terminal.write(), "--local", "--name", name)
    assert result.exit_code == 2
    assert "not a legal job name" in result.stderr


def test_an_unknown_option_is_a_usage_error(terminal):
    result = terminal("run", terminal.write(), "--locale")
    assert result.exit_code == 2
    assert "--local" in result.stderr


@pytest.mark.parametrize(
    ("word", "hint"),
    [pytest.param("chek", "Did you mean 'check'?", id="near"), pytest.param("x", "", id="far")],
)
def test_an_unknown_verb_is_a_usage_error(terminal, word, hint):
    result = terminal(word)
    assert result.exit_code == 2
    assert f"No such command '{word}'. {hint}".rstrip() in result.stderr


# --set -----------------------------------------------------------------------------------------

GROUPS = """\
entry_point: train.py
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.xlarge}
  - {instance_group_name: train_group, instance_type: ml.g5.xlarge}
data_service: {datasets: ["pipeline:train_set"]}
hyperparameters: {epochs: 3, lr: 0.1}
source_dir: .
"""


def changed(terminal, *changes):
    job = terminal.write(job=GROUPS + PLACES)
    (terminal.folder / "pipeline.py").write_text("def train_set(): ...\n")
    options = [word for change in changes for word in ("--set", change)]
    return terminal("run", job, "--dry-run", *options)


def test_set_changes_fields(terminal):
    result = changed(
        terminal,
        "hyperparameters.epochs=1",
        "hyperparameters.name=abc",
        "instance_groups.train_group.instance_count=4",
        "instance_groups.0.instance_type=ml.c5.2xlarge",
        "max_run=60",
        "environment.A='1'",
    )
    assert result.exit_code == 0, result.stderr
    request = json.loads(result.stdout)
    own = {k: v for k, v in request["HyperParameters"].items() if not k.startswith("sagemaker_")}
    assert own == {"epochs": "1", "lr": "0.1", "name": '"abc"'}
    counts = [group["InstanceCount"] for group in request["ResourceConfig"]["InstanceGroups"]]
    assert counts == [1, 4]
    types = [group["InstanceType"] for group in request["ResourceConfig"]["InstanceGroups"]]
    assert types == ["ml.c5.2xlarge", "ml.g5.xlarge"]
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == 60
    assert request["Environment"]["A"] == "1"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param("epochs", "path=value", id="no value"),
        pytest.param("hyperparametres.epochs=1", "hyperparameters", id="near-miss of a field"),
        pytest.param("instance_groups.gpu.instance_count=1", "train_group", id="unknown group"),
        pytest.param("max_run.x=1", "max_run", id="not a mapping"),
        pytest.param("max_run=[", "not YAML", id="not a value"),
    ],
)
def test_a_change_that_means_nothing_is_refused(terminal, change, word):
    result = changed(terminal, change)
    assert result.exit_code == 2
    assert word in result.stderr

"""What notebooks of SDK v2 call on an estimator and its job, beside `fit`."""

from __future__ import annotations

import csv
import sys
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from launcher import (
    DataParallel,
    Estimator,
    InstanceGroup,
    Job,
    JobFailed,
    JobNotFound,
    JobSpec,
    LauncherError,
    MemoryRun,
    MemorySession,
    PyTorch,
    SpecError,
    TrainingInput,
    TrainingJobAnalytics,
)

S3 = "s3://my-bucket/x"
PLACES = {
    "role": "arn:aws:iam::111122223333:role/Training",
    "image_uri": "111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1",
    "instance_type": "ml.m5.large",
    "instance_count": 1,
}
LINES = ["start", "loss=0.5 accuracy=10", "loss=0.25", "loss=oops"]
METRICS = [
    {"Name": "loss", "Regex": "loss=([^ ]+)"},
    {"Name": "accuracy", "Regex": "accuracy=([0-9]+)"},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session():
    return MemorySession(lambda _request: MemoryRun(lines=LINES))


def estimator(session, **arguments):
    return PyTorch("train.py", sagemaker_session=session, **{**PLACES, **arguments})


# The job ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("logs", ["All", True, "Training"])
def test_wait_prints_the_lines_that_sdk_v2_prints(folder, session, capsys, logs):
    made = estimator(session)
    made.fit(wait=False)
    assert capsys.readouterr().out == ""
    assert made.latest_training_job.wait(logs=logs).status == "Completed"
    assert "| loss=0.25\n" in capsys.readouterr().out


@pytest.mark.parametrize("logs", ["None", False, "Rules", None])
def test_wait_without_logs_prints_no_line(folder, session, capsys, logs):
    made = estimator(session)
    made.fit(wait=False)
    made.latest_training_job.wait(logs=logs)
    assert capsys.readouterr().out == ""


def test_wait_with_sdk_v2s_logs_raises_as_it_does(folder):
    made = estimator(MemorySession(lambda _: MemoryRun(failure="no luck")))
    made.fit(wait=False)
    job = made.latest_training_job
    assert job.wait().status == "Failed"
    for logs in ("All", "None", True):
        with pytest.raises(JobFailed, match="no luck"):
            job.wait(logs=logs)
    with pytest.raises(JobFailed, match="no luck"):
        made.logs()


def test_an_unknown_kind_of_logs_is_named_before_a_job_is_sent(folder, session):
    made = estimator(session)
    with pytest.raises(LauncherError, match=r'logs="all" is unknown: write True, False, or one of'):
        made.fit(logs="all")
    assert session.list_training_jobs() == {"TrainingJobSummaries": []}


def test_a_job_has_its_names_of_sdk_v2(folder, session):
    made = estimator(session)
    job = made.fit(logs=False, job_name="job-1")
    assert job.name == job.job_name == made._current_job_name == "job-1"
    assert job.describe() == job.description()
    assert job.rule_job_summary() == []
    again = made.fit(logs=False, job_name="job-2")
    assert made.jobs == (job, again)
    assert made.latest_training_job is again


# The estimator's attributes ----------------------------------------------------------------------


def attributes():
    """But for two fields that no constructor takes, and three that are methods in SDK v2."""
    fields = JobSpec.__dataclass_fields__.keys() - {"inputs", "where"}
    return sorted(name for name in fields if not callable(getattr(Estimator, name)))


@pytest.mark.parametrize("name", attributes())
def test_an_attribute_is_the_spec_s(name):
    made = PyTorch("train.py", **PLACES)
    assert getattr(made, name) == getattr(made.spec, name)
    setattr(made, name, None)
    empty = () if name == "instance_groups" else getattr(JobSpec(), name)
    assert getattr(made, name) == getattr(made.spec, name) == empty


def test_an_attribute_that_is_set_reaches_the_request(folder, session):
    made = estimator(session)
    made.instance_count = 3
    made.max_run = 60
    made.tags = [{"Key": "team", "Value": "x"}]
    made.subnets, made.security_group_ids = ["subnet-1"], ["sg-1"]
    made.debugger_hook_config = True
    request = made.request()
    assert request["ResourceConfig"]["InstanceCount"] == 3
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == 60
    assert request["Tags"] == [{"Key": "team", "Value": "x"}]
    assert request["VpcConfig"] == made.get_vpc_config()
    assert request["DebugHookConfig"]["S3OutputPath"]


def test_groups_and_a_distribution_can_be_set_later(folder):
    data, train = InstanceGroup("data", "ml.c5.xlarge"), InstanceGroup("train", "ml.g5.xlarge")
    made = PyTorch("train.py")
    made.instance_groups = [data, train]
    made.distribution = {"torch_distributed": {"enabled": True}, "instance_groups": [train]}
    same = PyTorch(
        "train.py",
        instance_groups=[data, train],
        distribution={"torch_distributed": {"enabled": True}, "instance_groups": [train]},
    )
    assert made.spec == same.spec
    assert made.distribution == DataParallel(instance_groups=("train",))


def test_the_configurations_that_sdk_v2_returns():
    made = PyTorch("train.py")
    assert made.get_vpc_config() is None
    assert made.get_remote_debug_config() is None
    assert made.get_session_chaining_config() is None
    assert made.enable_network_isolation() is False
    made = PyTorch(
        "train.py",
        enable_remote_debug=True,
        enable_session_tag_chaining=False,
        enable_network_isolation=True,
    )
    assert made.get_remote_debug_config() == {"EnableRemoteDebug": True}
    assert made.get_session_chaining_config() == {"EnableSessionTagChaining": False}
    assert made.enable_network_isolation() is True


# Artifacts ---------------------------------------------------------------------------------------


def test_the_artifacts_of_the_latest_job_have_sdk_v2s_paths(folder, session):
    made = estimator(
        session,
        debugger_hook_config={"S3OutputPath": f"{S3}/"},
        tensorboard_output_config={"S3OutputPath": S3},
        profiler_config={"S3OutputPath": S3},
    )
    made.fit(logs=False, job_name="job-1")
    assert made.latest_job_debugger_artifacts_path() == f"{S3}/job-1/debug-output"
    assert made.latest_job_tensorboard_artifacts_path() == f"{S3}/job-1/tensorboard-output"
    assert made.latest_job_profiler_artifacts_path() == f"{S3}/job-1/profiler-output"


def test_artifacts_that_nobody_asked_for_have_no_path(folder, session):
    made = estimator(session, disable_profiler=True)
    made.fit(logs=False)
    assert made.latest_job_debugger_artifacts_path() is None
    assert made.latest_job_tensorboard_artifacts_path() is None
    assert made.latest_job_profiler_artifacts_path() is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda made: made.logs(),
        lambda made: made.training_job_analytics,
        lambda made: made.latest_job_debugger_artifacts_path(),
        lambda made: made.latest_job_profiler_artifacts_path(),
    ],
    ids=["logs", "analytics", "debugger", "profiler"],
)
def test_before_the_first_job_there_is_nothing_to_read(ask):
    with pytest.raises(LauncherError, match=r"this estimator has not run a job; call fit\(\)"):
        ask(PyTorch("train.py"))


@pytest.mark.long
def test_remote_debugging_can_be_switched_before_a_job_but_not_in_one_elsewhere(folder, session):
    made = estimator(session)
    made.enable_remote_debug()
    assert made.request()["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    made.disable_remote_debug()
    assert made.request()["RemoteDebugConfig"] == {"EnableRemoteDebug": False}
    made.fit(logs=False, job_name="job-1")
    with pytest.raises(LauncherError, match="job job-1 is not on SageMaker"):
        made.enable_remote_debug()
    assert made.spec.enable_remote_debug is False


# Metrics over time -------------------------------------------------------------------------------


@pytest.fixture
def trained(folder, session):
    made = estimator(session, metric_definitions=METRICS)
    made.fit(logs=False, job_name="job-1")
    return made


def test_metrics_are_records_of_each_printed_value(trained):
    records = trained.training_job_analytics.records()
    assert [(r.metric_name, r.value, r.host) for r in records] == [
        ("loss", 0.5, "algo-1"),
        ("accuracy", 10.0, "algo-1"),
        ("loss", 0.25, "algo-1"),
    ]
    assert [r.time for r in records] == sorted(r.time for r in records)


def test_metrics_can_be_chosen_by_name_and_time(trained, session):
    chosen = TrainingJobAnalytics("job-1", ["accuracy"], session)
    assert [record.value for record in chosen.records()] == [10.0]
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    assert TrainingJobAnalytics("job-1", None, session, start_time=later).records() == []
    assert TrainingJobAnalytics("job-1", None, session, source="cloudwatch").records() == []
    with pytest.raises(LauncherError, match='write "logs" or "cloudwatch"'):
        TrainingJobAnalytics("job-1", None, session, source="s3")


def test_times_of_metrics_without_a_zone_are_local(trained, session):
    """As boto3 takes them; CloudWatch is asked in windows up to an end that has a zone."""
    asked = []
    session.metric_averages = lambda _job, _metric, start, end, _period: (
        asked.append(start < end) or []
    )
    given = {"start_time": datetime(2000, 1, 1), "source": "cloudwatch"}
    assert TrainingJobAnalytics("job-1", ["loss"], session, **given).records() == []
    assert asked == [True]


def test_metrics_as_a_file_have_sdk_v2s_columns(trained, folder):
    trained.training_job_analytics.export_csv(folder / "metrics.csv")
    rows = list(csv.reader((folder / "metrics.csv").read_text().splitlines()))
    assert rows[0] == ["", "timestamp", "metric_name", "value"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2"]
    assert [row[2:] for row in rows[1:]] == [
        ["loss", "0.5"],
        ["loss", "0.25"],
        ["accuracy", "10.0"],
    ]
    assert float(rows[1][1]) == 0.0


def test_one_metric_needs_no_list(trained, session):
    """Its name is no list of letters, which CloudWatch would be asked for."""
    asked = []

    def metric_averages(_job_name, metric, _start, _end, _period):
        asked.append(metric)
        return []

    session.metric_averages = metric_averages
    found = TrainingJobAnalytics("job-1", "loss", session)
    assert [record.value for record in found.records()] == [0.5, 0.25]
    assert TrainingJobAnalytics("job-1", "loss", session, source="cloudwatch").records() == []
    assert asked == ["loss"]


def test_without_pandas_the_records_are_named(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LauncherError, match=r"pip install pandas, or use records\(\)"):
        trained.training_job_analytics.dataframe()


@pytest.mark.library("sagemaker-v2")
def test_metrics_are_a_dataframe_with_sdk_v2s_columns(trained):
    frame = trained.training_job_analytics.dataframe(force_refresh=True)
    assert list(frame.columns) == ["timestamp", "metric_name", "value"]
    assert list(frame["value"]) == [0.5, 0.25, 10.0]
    assert list(TrainingJobAnalytics("job-1", ["none"], trained.sagemaker_session).dataframe()) == [
        "timestamp",
        "metric_name",
        "value",
    ]


# attach ------------------------------------------------------------------------------------------


def test_a_job_is_attached_by_name_or_as_an_object_of_any_sdk(trained, session):
    of_v2 = SimpleNamespace(job_name="job-1", name="job-1")
    of_v3 = SimpleNamespace(training_job_name="job-1", training_job_status="Completed")
    of_estimator = SimpleNamespace(latest_training_job=of_v2, sagemaker_session=session)
    jobs = (trained.latest_training_job, Job("job-1", session), of_v2, of_v3)
    for named in ("job-1", *jobs, trained, of_estimator):
        again = PyTorch.attach(named, session)
        assert again.latest_training_job.name == again._current_job_name == "job-1"
        assert [metric.name for metric in again.metric_definitions] == ["loss", "accuracy"]
    for named in (trained.latest_training_job, trained, of_estimator):
        assert PyTorch.attach(named).jobs[0].session is session
    with pytest.raises(SpecError, match="has not run a job"):
        PyTorch.attach(estimator(session))
    with pytest.raises(JobNotFound):
        PyTorch.attach(SimpleNamespace(training_job_name="job-9"), session)


def test_the_channel_of_the_model_is_found_by_its_name(folder, session):
    channels = {"model": TrainingInput(f"{S3}/a"), "weights": TrainingInput(f"{S3}/b")}
    made = estimator(session)
    made.fit(channels, logs=False, job_name="job-1")
    assert PyTorch.attach("job-1", session).model_uri == f"{S3}/a"
    again = PyTorch.attach("job-1", session, model_channel_name="weights")
    assert (again.model_uri, again.model_channel_name) == (f"{S3}/b", "weights")
    assert PyTorch.attach("job-1", session, "none").model_uri is None

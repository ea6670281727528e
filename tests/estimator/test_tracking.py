"""Estimator(tracking=...): a job's metrics reach its trackers, which never harm it."""

import re
import struct
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher import (
    DataParallel,
    Estimator,
    InstanceGroup,
    Job,
    JobFailed,
    JobSpec,
    MemoryRun,
    MemorySession,
    MetricDefinition,
    MetricRecord,
    SpecError,
    Tracking,
)
from launcher.client.jobs import MetricTracking, MlflowTracker, load_callback, tracker_problems

LINES = (
    "loss=0.5",
    "launcher: train_step rank=0 epoch=0 step=7 steps=9 loss=0.7",
    "loss=0.25",
)
#: A callback that writes what it gets.
CALLBACK = """
import pathlib
def log(job_name, record):
    with (pathlib.Path(__file__).parent / "seen").open("a") as file:
        print(job_name, record.metric_name, record.host, record.step, record.value, file=file)
def fail(job_name, record):
    raise RuntimeError("the disk is full\\nreally")
def leave(job_name, record):
    raise SystemExit(3)
number = 1
"""
SEEN = (
    "job-1 loss algo-1 0 0.5\n"
    "job-1 train/loss algo-1 7 0.7\n"  # a step of its own
    "job-1 loss algo-1 1 0.25\n"  # counted by metric and host
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("")
    (tmp_path / "tracker.py").write_text(CALLBACK)
    (tmp_path / "broken.py").write_text("def log(name, record): pass\nraise RuntimeError('no')")
    return tmp_path


@pytest.fixture
def estimate(folder):
    def estimate(tracking, *, session=None, count=1, lines=LINES, failure=None):
        session = session or MemorySession(lambda _: MemoryRun(lines=lines, failure=failure))
        return Estimator(
            entry_point="train.py",
            source_dir=str(folder),
            role="arn:aws:iam::111122223333:role/r",
            image_uri="111122223333.dkr.ecr.eu-west-1.amazonaws.com/i:1",
            instance_groups=[InstanceGroup("train_group", "ml.c5.xlarge", count)],
            distribution=DataParallel() if count > 1 else None,
            metric_definitions=[MetricDefinition("loss", r"^loss=(\S+)")],
            sagemaker_session=session,
            tracking=tracking,
        )

    return estimate


def of(folder, function):
    return Tracking(callback=f"{folder}/tracker.py:{function}")


def test_a_followed_job_calls_the_callback_with_each_value(estimate, folder):
    estimate(of(folder, "log")).fit(logs=False, job_name="job-1")
    assert (folder / "seen").read_text() == SEEN


def test_the_first_wait_tracks(estimate, folder):
    with pytest.warns(UserWarning, match="tracking has no effect on a job that nobody follows"):
        job = estimate(of(folder, "log")).fit(wait=False, job_name="job-1")
    assert not (folder / "seen").exists()
    job.wait().wait()
    assert (folder / "seen").read_text() == SEEN


def test_any_job_can_be_tracked_later(estimate, folder):
    session = MemorySession(lambda _request: MemoryRun(lines=LINES))
    estimate(None, session=session).fit(logs=False, job_name="job-1")
    Job("job-1", session, tracking=of(folder, "log")).wait()
    assert (folder / "seen").read_text() == SEEN


def test_a_function_gets_each_value_in_wait(estimate):
    values = []
    job = estimate(None).fit(logs=False)
    job.wait(metrics=lambda record: values.append((record.metric_name, record.value)))
    assert values == [("loss", 0.5), ("train/loss", 0.7), ("loss", 0.25)]


@pytest.mark.parametrize(
    ("function", "cause"),
    [("fail", "RuntimeError: the disk is full"), ("leave", "SystemExit: 3")],
)
def test_a_tracker_that_fails_is_reported_once_and_harms_nothing(
    estimate, folder, capsys, function, cause
):
    job = estimate(of(folder, function)).fit(logs=False)
    assert job.status == "Completed"
    notices = [line for line in capsys.readouterr().out.splitlines() if "tracking" in line]
    assert notices == [f"(tracking by callback has failed, and the job goes on: {cause})"]


def test_a_failed_job_is_tracked_to_its_end(estimate, folder):
    with pytest.raises(JobFailed):
        estimate(of(folder, "log"), failure="AlgorithmError: exit code 1").fit(
            logs=False, job_name="job-1"
        )
    assert (folder / "seen").read_text() == SEEN


def test_a_tracker_that_blocks_delays_nobody_for_long():
    released, entered, notices = threading.Event(), threading.Event(), []

    class Blocking:
        def log(self, records):
            entered.set()
            released.wait(60)

        def close(self, status):
            pass

    tracking = MetricTracking({"blocking": Blocking}, notices.append)
    tracking.take(MetricRecord(metric_name="loss", value=1.0, time=0.0))
    assert entered.wait(60)
    tracking.close(0.01)
    released.set()
    assert notices == ["tracking by blocking has not ended after 0 s: its last values are lost"]


def test_a_tracker_that_blocks_keeps_no_value_from_the_others():
    released, notices, seen = threading.Event(), [], []

    class Attentive:
        def log(self, records):
            seen.extend(record.value for record in records)

        def close(self, status):
            seen.append(status)
            released.set()

    def open_late():
        released.wait(60)
        return Attentive()

    tracking = MetricTracking({"absent server": open_late, "attentive": Attentive}, notices.append)
    tracking.take(MetricRecord(metric_name="loss", value=1.0, time=0.0))
    tracking.status = "Completed"
    tracking.close(120)
    assert seen[:2] == [1.0, "Completed"]
    assert notices == []


@pytest.mark.parametrize(
    ("tracking", "what", "fix"),
    [
        (Tracking(tensorboard="runs"), "TensorBoard is not installed for", "-m pip install"),
        (Tracking(mlflow="http://server"), "MLflow is not installed for", "pip install mlflow, or"),
        (Tracking(callback="absent_module:log"), "ModuleNotFoundError", "name a function"),
        (Tracking(callback="FOLDER/absent.py:log"), "FileNotFoundError", "name a function"),
        (Tracking(callback="FOLDER/tracker.py:number"), "is not a function", "name a function"),
        (Tracking(callback="FOLDER/tracker.py:lg"), "AttributeError", "name a function"),
        (Tracking(callback="FOLDER/broken.py:log"), "loaded: RuntimeError: no", "name a function"),
        (Tracking(), "tracking names no tracker", "write tensorboard: FOLDER"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_missing_is_refused_before_anything_is_created(
    estimate, folder, tracking, what, fix
):
    session = MemorySession()
    tracking = Tracking(
        **{
            name: value and value.replace("FOLDER", str(folder))
            for name, value in vars(tracking).items()
        }
    )
    with pytest.raises(SpecError) as caught:
        estimate(tracking, session=session).fit(logs=False)
    [problem] = [p for p in caught.value.problems if what in p.what]
    assert fix in problem.fix
    assert problem.where.startswith("tracking")
    assert session.requests == {}
    assert session.objects == {}


RUNS = """
import pathlib
pathlib.Path(__file__).with_name("has_run").touch()
"""


@pytest.mark.parametrize(
    ("name", "file", "has_log"),
    [
        ("FOLDER/mine.py:log", "def log(name, record): pass", True),
        ("FOLDER/mine.py:log", "if True:\n    log = print\nelse:\n    log = None", True),
        ("FOLDER/mine.py:log", "from os.path import *", True),
        ("FOLDER/mine.py:log", "globals()['log'] = print", True),
        ("FOLDER/mine.py:log", "def other():\n    log = 1", False),
        ("FOLDER/mine.py:log", r"lg = '\d'", False),
        ("package_of_callbacks.inner:log", "async def log(name, record): pass", True),
        ("package_of_callbacks.inner:log", "class Log: log = 1", False),
        ("package_of_callbacks.absent:log", "", False),
        ("os.path:join", "", True),
        ("sys:log", "", True),  # compiled: not known before it is loaded
    ],
)
def test_a_check_looks_for_the_callback_without_running_it(
    folder, monkeypatch, recwarn, name, file, has_log
):
    package = folder / "package_of_callbacks"
    package.mkdir()
    (package / "__init__.py").write_text(RUNS)
    (package / "inner.py").write_text(RUNS + file)
    (folder / "mine.py").write_text(RUNS + file)
    monkeypatch.syspath_prepend(str(folder))
    problems = [*tracker_problems(Tracking(callback=name.replace("FOLDER", str(folder))))]
    assert not [*folder.rglob("has_run")]
    assert len(problems) == (not has_log)
    assert not recwarn.list


def test_a_callbacks_file_may_define_dataclasses(folder):
    (folder / "mine.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Best:\n"
        "    loss: float = 1.0\n"
        "def log(name, record): return Best()\n"
    )
    log = load_callback(f"{folder}/mine.py:log")
    assert log("job-1", None) == sys.modules[log.__module__].Best(1.0)


def test_a_callbacks_file_that_fails_is_run_again_when_it_is_loaded_again(folder):
    file = folder / "mine.py"
    file.write_text("raise RuntimeError('no')")
    with pytest.raises(RuntimeError):
        load_callback(f"{file}:log")
    file.write_text("def log(name, record): return 'mended'")
    assert load_callback(f"{file}:log")("job-1", None) == "mended"


def test_a_job_file_names_its_trackers_relative_to_its_folder(folder):
    text = "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"
    (folder / "job.yaml").write_text(
        text + "tracking: {tensorboard: runs, mlflow: mlruns, callback: 'tracker.py:log'}\n"
    )
    spec = JobSpec.from_yaml(folder / "job.yaml")
    assert spec.tracking == Tracking(
        tensorboard=f"{folder}/runs",
        mlflow=f"{folder}/mlruns",
        callback=f"{folder}/tracker.py:log",
    )
    assert JobSpec.from_yaml(spec.to_yaml()).tracking == spec.tracking
    server = Tracking(mlflow="http://localhost:5000", callback="a.b:log")
    assert spec.replace(tracking=server).tracking == server.anchored(lambda path: f"/x/{path}")


def test_a_tilde_in_a_local_path_is_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    (folder / "job.yaml").write_text(
        "entry_point: train.py\nsource_dir: ~/code\ninstance_type: local\ninstance_count: 1\n"
        "inputs: {train: 'file://~/data', tests: 'file://data~'}\n"
        "tracking: {tensorboard: ~/runs, mlflow: ~/mlruns, callback: '~/tracker.py:log'}\n"
    )
    spec = JobSpec.from_yaml(folder / "job.yaml")
    assert spec.tracking == Tracking(
        tensorboard=f"{folder}/runs",
        mlflow=f"{folder}/mlruns",
        callback=f"{folder}/tracker.py:log",
    )
    assert spec.source_dir == f"{folder}/code"
    assert spec.inputs["train"].s3_data == f"file://{folder}/data"
    assert spec.inputs["tests"].s3_data == f"file://{folder}/data~"


def test_a_tilde_in_an_estimators_tracking_is_the_home_folder(estimate, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    estimate(Tracking(callback="~/tracker.py:log")).fit(job_name="job-1", logs=False)
    assert (folder / "seen").read_text() == SEEN


def test_a_request_says_nothing_of_tracking(estimate, folder):
    made = estimate(of(folder, "log")).request("job-1")
    assert "tracker" not in str(made)


# The libraries ----------------------------------------------------------------------------------


@pytest.mark.library("trackers")
def test_tensorboard_gets_a_folder_for_each_host(estimate, folder):
    tracking = Tracking(tensorboard=str(folder / "runs"))
    job = estimate(tracking, count=2).fit(logs=False, job_name="job-1")
    records = job.metric_series().records
    for host in ("algo-1", "algo-2"):
        [file] = (folder / "runs" / "job-1" / host).iterdir()
        events = [event for event in read_events(file) if "tag" in event]
        assert [(e["tag"], e["step"], round(e["value"], 4)) for e in events] == [
            ("loss", 0, 0.5),
            ("train/loss", 7, 0.7),
            ("loss", 1, 0.25),
        ]
        assert [e["time"] for e in events] == [r.time for r in records if r.host == host]


@pytest.mark.library("trackers")
@pytest.mark.filterwarnings("ignore")  # MLflow uses what SQLAlchemy has deprecated
@pytest.mark.parametrize("count", [1, 2])
def test_mlflow_gets_a_run_that_ends_as_the_job(estimate, folder, count, monkeypatch):
    monkeypatch.chdir(folder)
    uri = f"sqlite:///{folder}/mlflow.db"
    tracking = Tracking(mlflow=uri, mlflow_experiment="digits")
    with pytest.raises(JobFailed):
        estimate(tracking, count=count, failure="AlgorithmError").fit(logs=False, job_name="job-1")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("digits")
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("job-1", "FAILED")
    name = "loss" if count == 1 else "loss/algo-2"
    history = client.get_metric_history(run.info.run_id, name)
    assert [(each.step, each.value) for each in history] == [(0, 0.5), (1, 0.25)]


class Refusal(Exception):
    """Stands in for MLflow's exception."""


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        pytest.param(r"[/\w.\- :]*", ["train:loss", "mAP_0.5", "acc _"], id="newer"),
        pytest.param(r"[/\w.\- ]*", ["train_loss", "mAP_0.5", "acc _"], id="older"),
    ],
)
def test_mlflow_gets_names_that_it_takes(monkeypatch, allowed, names):
    written = []

    class Client:
        def __init__(self, tracking_uri):
            self.get_experiment_by_name = lambda _: SimpleNamespace(experiment_id="1")

        def create_run(self, experiment, run_name):
            return SimpleNamespace(info=SimpleNamespace(run_id="run"))

        def log_batch(self, run, metrics):
            if not all(re.fullmatch(allowed, name) for name, *_ in metrics):
                raise Refusal
            written.extend(name for name, *_ in metrics)

    for module, parts in {
        "mlflow": {},
        "mlflow.entities": {"Metric": lambda *fields: fields},
        "mlflow.exceptions": {"MlflowException": Refusal},
        "mlflow.tracking": {"MlflowClient": Client},
    }.items():
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**parts))
    tracker = MlflowTracker("http://server", "digits", "job-1", has_many_hosts=False)
    values = [
        MetricRecord(metric_name=name, value=1.0, time=0.0, step=0)
        for name in ("train:loss", "mAP@0.5", "acc %")
    ]
    tracker.log(values)
    tracker.log(values)
    assert written == names * 2


@pytest.mark.library("trackers")
def test_a_folder_that_mlflow_takes_gets_the_run(estimate, folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    estimate(Tracking(mlflow=str(folder / "mlruns"))).fit(logs=False, job_name="job-1")
    [values] = (folder / "mlruns").glob("*/*/metrics/loss")
    assert [line.split()[1:] for line in values.read_text().splitlines()] == [
        ["0.5", "0"],
        ["0.25", "1"],
    ]


@pytest.mark.library("trackers")
def test_a_folder_that_mlflow_refuses_is_an_error_first(estimate, folder, monkeypatch):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    session = MemorySession()
    with pytest.raises(SpecError, match=r"MLflow refuses .*mlruns: ") as caught:
        estimate(Tracking(mlflow=str(folder / "mlruns")), session=session).fit()
    assert "sqlite:///mlflow.db" in caught.value.problems[0].fix
    assert session.requests == {}


@pytest.mark.library("trackers")
def test_a_folder_that_cannot_be_written_is_an_error_first(estimate, folder):
    tracking = Tracking(tensorboard=str(folder / "train.py" / "runs"))
    with pytest.raises(SpecError, match=r"train\.py is not a folder"):
        estimate(tracking).fit()


def read_events(file: Path):
    """Yield the scalars of an event file: TFRecords of protobuf messages.

    Source: tensorboard/compat/proto/event.proto and summary.proto.
    """
    content = file.read_bytes()
    while content:
        length = int.from_bytes(content[:8], "little")  # then the length's checksum
        event = dict(fields(content[12 : 12 + length]))
        content = content[12 + length + 4 :]
        found = {"time": event[1], "step": event.get(2, 0)}
        for _, value in fields(event.get(5, b"")):
            scalar = dict(fields(value))
            found |= {"tag": scalar[1].decode(), "value": scalar[2]}
        yield found


def fields(message: bytes):
    """Yield the number and value of each field of a protobuf message."""
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        key = number()
        kind = key & 7
        size = {1: 8, 5: 4}.get(kind)
        if kind == 0:
            yield key >> 3, number()
            continue
        size = number() if size is None else size
        part = message[position : position + size]
        position += size
        yield key >> 3, struct.unpack({1: "<d", 5: "<f"}[kind], part)[0] if kind != 2 else part

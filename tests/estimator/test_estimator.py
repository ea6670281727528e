"""Estimator and PyTorch: requests without a cloud, and jobs that run on this machine."""

import tarfile
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from cut_model import partition

from launcher import (
    CloudError,
    DataParallel,
    DataService,
    Estimator,
    InstanceGroup,
    Job,
    JobFailed,
    JobSpec,
    LauncherError,
    LocalSession,
    MemorySession,
    ModelParallel,
    PyTorch,
    SpecError,
    TensorFlow,
    TrainingInput,
)
from launcher.shared import CONTAINER_ENTRYPOINT

IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1"
ROLE = "arn:aws:iam::111122223333:role/Training"
PLACES = {"image_uri": IMAGE, "role": ROLE, "output_path": "s3://my-bucket/output"}
SAVES_ITS_INPUT = """\
import os, pathlib, sys
text = pathlib.Path(os.environ["SM_CHANNEL_TRAINING"], "numbers.txt").read_text()
print("read", text)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(text)
pathlib.Path(os.environ["SM_MODEL_DIR"], "arguments.txt").write_text(" ".join(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a script; jobs are kept beside it."""
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(SAVES_ITS_INPUT)
    (source / "pipeline.py").write_text("def train_set(): ...\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers.txt").write_text("1 2 3")
    return source


def estimator(folder, **arguments):
    machines = {"instance_type": "local", "instance_count": 1}
    return PyTorch("train.py", source_dir=str(folder), **{**machines, **arguments})


# Requests --------------------------------------------------------------------------------------


def test_a_request_says_everything_that_is_missing(folder):
    with pytest.raises(SpecError) as caught:
        estimator(folder, instance_type="ml.m5.xlarge").request()
    assert [problem.where for problem in caught.value.problems] == [
        "image_uri",
        "role",
        "output_path",
    ]


def test_a_notebook_ports_by_changing_the_import(folder):
    """Objects as the sagemaker package makes them, and SDK v2's distribution."""
    cpu, gpu = (
        SimpleNamespace(instance_group_name=name, instance_type=kind, instance_count=count)
        for name, kind, count in [("a", "ml.c5.2xlarge", 2), ("b", "ml.p3.8xlarge", 1)]
    )
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://my-bucket/x", "InstanceGroupNames": ["a"]}
    foreign = SimpleNamespace(config={"DataSource": {"S3DataSource": source}})
    ported = PyTorch(
        entry_point="train.py",
        source_dir=str(folder),
        framework_version="2.2",
        py_version="py310",
        instance_groups=[cpu, gpu],
        distribution={"torch_distributed": {"enabled": True}, "instance_groups": [gpu]},
        data_service=DataService(datasets=["pipeline:train_set"]),
        **PLACES,
    )
    ours = PyTorch(
        entry_point="train.py",
        source_dir=str(folder),
        instance_groups=[
            InstanceGroup("a", "ml.c5.2xlarge", 2),
            InstanceGroup("b", "ml.p3.8xlarge", 1, role="train"),
        ],
        distribution=DataParallel(),
        data_service=DataService(datasets=["pipeline:train_set"]),
        enable_sagemaker_metrics=True,  # the default for a framework_version
        **PLACES,
    )
    routed = TrainingInput("s3://my-bucket/x", instance_groups=["a"])
    requests = [
        ported.request(job_name="job-1", inputs={"x": foreign}),
        ours.request(job_name="job-1", inputs={"x": routed}),
    ]
    for request in requests:
        request["Environment"].pop("LAUNCHER_TOKEN")
    assert requests[0] == requests[1]


def test_every_job_has_its_own_token_and_name(folder):
    job = estimator(folder, instance_type="ml.m5.xlarge", instance_count=2, **PLACES)
    first, second = job.request(), job.request()
    assert first["TrainingJobName"] != second["TrainingJobName"]
    assert first["Environment"]["LAUNCHER_TOKEN"] != second["Environment"]["LAUNCHER_TOKEN"]


def test_the_yaml_describes_the_same_job(folder):
    job = estimator(folder, hyperparameters={"epochs": 3}, max_run=60)
    spec = JobSpec.from_yaml(job.to_yaml(inputs="file://data"))
    assert spec.hyperparameters == {"epochs": 3}
    assert spec.inputs["training"].s3_data == f"file://{Path.cwd() / 'data'}"
    assert spec.entry_point == "train.py"


def test_a_cloud_job_without_a_region_says_how_to_give_one(folder, offline):
    with pytest.raises(CloudError, match="AWS_DEFAULT_REGION"):
        estimator(folder, instance_type="ml.m5.xlarge", **PLACES).fit()


# Jobs ------------------------------------------------------------------------------------------


FOREIGN_LOCAL = SimpleNamespace(local_mode=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("instance_type", "make_session", "fit"),
    [
        pytest.param("local", lambda: None, {}, id="instance type local"),
        pytest.param("ml.m5.xlarge", lambda: None, {"local": True}, id="fit(local=True)"),
        pytest.param("ml.m5.xlarge", LocalSession, {}, id="our LocalSession"),
        pytest.param("ml.m5.xlarge", lambda: FOREIGN_LOCAL, {}, id="sagemaker's LocalSession"),
    ],
)
def test_a_job_runs_here(folder, instance_type, make_session, fit, capsys):
    arguments = {"instance_type": instance_type, "sagemaker_session": make_session()}
    trainer = estimator(folder, hyperparameters={"epochs": 3}, **arguments)
    job = trainer.fit("file://data", **fit)
    assert job is trainer.latest_training_job
    assert job.status == job.secondary_status == "Completed"
    assert "homogeneousCluster/algo-1 | read 1 2 3" in capsys.readouterr().out
    with tarfile.open(unquote(urlsplit(trainer.model_data).path)) as model:
        assert model.extractfile("model.txt").read() == b"1 2 3"
        assert model.extractfile("arguments.txt").read() == b"--epochs 3"


@pytest.mark.long
def test_dependencies_and_a_model_reach_the_script(folder, tmp_path):
    """Also with parts of the request that mean nothing here: they are noted, and harmless."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "words.py").write_text("WORD = 'hello'\n")
    (tmp_path / "weights.bin").write_text("1.5")
    (folder / "train.py").write_text(
        "import os, pathlib, sys\n"
        "from shared.words import WORD\n"
        "print(WORD, pathlib.Path(os.environ['SM_CHANNEL_START'], 'weights.bin').read_text())\n"
        "print(sys.argv[1:])\n"
    )
    trainer = TensorFlow(
        entry_point="train.py",
        source_dir=str(folder),
        dependencies=["shared"],
        instance_type="local",
        instance_count=1,
        model_uri="file://weights.bin",
        model_channel_name="start",
        model_dir="/opt/ml/model",
        debugger_hook_config=True,
        keep_alive_period_in_seconds=60,
        extra_request={"StoppingCondition": {"MaxPendingTimeInSeconds": 7200}},
    )
    job = trainer.fit(logs="None", experiment_config={"RunName": "one"})
    said = [line.text for line in job.logs() if "launcher:" not in line.text]
    assert said == ["hello 1.5", "['--model_dir', '/opt/ml/model']"]
    assert job.description()["ExperimentConfig"] == {"RunName": "one"}
    assert "DebugHookConfig has no effect on a local job" in job.description()["LocalNotes"]

    again = TensorFlow.attach(job.name).spec
    assert again.model_channel_name == "start"
    assert again.keep_alive_period_in_seconds == 60
    assert again.debugger_hook_config == trainer.request()["DebugHookConfig"]


@pytest.mark.long
def test_logs_of_any_length_come_to_the_end(folder):
    (folder / "train.py").write_text("for line in range(40_000):\n    print(line, 'x' * 50)\n")
    job = estimator(folder).fit(logs=False)
    printed = [line.text.split()[0] for line in job.logs() if "launcher:" not in line.text]
    assert printed == [str(line) for line in range(40_000)]


@pytest.mark.long
def test_leaving_a_job_that_is_followed_says_how_to_come_back(folder, capsys, monkeypatch):
    def leave(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "wait", leave)
    trainer = estimator(folder)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit("file://data", job_name="job-1")
    assert "Detached; job job-1 continues" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setenv("LAUNCHER_HOME", str(folder.parent / "home"))
    assert trainer.latest_training_job.wait().status == "Completed"


@pytest.mark.long
def test_a_job_without_a_model_says_so(folder):
    (folder / "train.py").write_text("print('nothing to save')")
    trainer = estimator(folder)
    trainer.fit(logs=False)
    with pytest.raises(LauncherError, match="wrote no model to /opt/ml/model"):
        trainer.model_data  # noqa: B018 (the access is the test)


@pytest.mark.long
def test_a_job_that_fails_raises_its_reason(folder):
    (folder / "train.py").write_text("raise ValueError('no such luck')")
    trainer = estimator(folder)
    with pytest.raises(JobFailed, match="ValueError: no such luck") as raised:
        trainer.fit(logs=False, job_name="job-1")
    assert raised.value.host == "algo-1"
    assert "ValueError: no such luck" in raised.value.last_lines
    assert str(raised.value).endswith("launcher logs job-1 --host algo-1")
    assert trainer.latest_training_job.status == "Failed"
    with pytest.raises(JobFailed):
        trainer.model_data  # noqa: B018 (the access is the test)


@pytest.mark.long
def test_without_waiting_the_job_goes_on_alone_and_can_be_attached(folder, capsys):
    trainer = estimator(folder)
    trainer.fit("file://data", wait=False, job_name="job-1")
    job = Estimator.attach("job-1").latest_training_job
    job.wait().raise_for_status()
    assert [line.text for line in job.logs() if line.text.startswith("read")] == ["read 1 2 3"]
    assert capsys.readouterr().out == ""


def test_a_task_is_named_instead_of_a_script(folder):
    made = PyTorch(
        task="pipeline:train_set",
        source_dir=str(folder),
        instance_type="local",
        distribution=ModelParallel(partitions=2, processes_per_host=2, starts=["head"]),
    )
    request = made.request()
    assert request["AlgorithmSpecification"]["ContainerEntrypoint"] == list(CONTAINER_ENTRYPOINT)
    assert request["TrainingJobName"].startswith(f"{folder.name}-pipeline-")
    assert JobSpec.from_yaml(made.to_yaml()) == made.spec


def test_a_partition_file_is_seen_from_where_fit_is_called(folder, monkeypatch):
    (folder / "cuts.json").write_text(partition(schedule="simple").to_json())
    made = PyTorch(
        task="pipeline:train_set",
        source_dir=str(folder),
        instance_type="local",
        distribution=ModelParallel(partition_file="cuts.json", processes_per_host=2),
    )
    monkeypatch.chdir(folder)
    assert f"partition_file: {folder}/cuts.json" in made.to_yaml()
    made.request()
    monkeypatch.chdir(folder.parent)
    with pytest.raises(SpecError, match=r"cuts\.json cannot be read: No such file"):
        made.request()


@pytest.mark.long
def test_a_name_is_used_once(folder):
    trainer = estimator(folder)
    job = trainer.fit("file://data", logs=False, job_name="job-1")
    before = job.document()
    (folder / "train.py").write_text("print('another script')")
    with pytest.raises(SpecError, match="the name 'job-1' was used for a job before"):
        estimator(folder, hyperparameters={"new": 1}).fit("file://data", job_name="job-1")
    assert job.document() == before


def test_an_attached_estimator_is_made_of_what_the_job_was(folder):
    made = PyTorch(
        "train.py",
        source_dir=folder,
        instance_groups=[InstanceGroup("train", "ml.m5.xlarge", 1)],
        hyperparameters={"epochs": 3, "name": "a b"},
        environment={"COLOUR": "blue"},
    )
    made.fit("file://data", logs=False, job_name="job-1", local=True)
    attached = PyTorch.attach("job-1")
    assert attached.latest_training_job.status == "Completed"
    assert attached.spec.groups == made.spec.groups
    assert attached.spec.hyperparameters == {"epochs": 3, "name": "a b"}
    assert attached.spec.environment == {"COLOUR": "blue"}
    assert attached.spec.entry_point == "train.py"


def test_an_attached_estimator_has_the_requirements_of_its_groups(folder):
    (folder / "needs.txt").touch()
    session = MemorySession()
    made = PyTorch(
        "train.py",
        source_dir=folder,
        role="arn:aws:iam::111122223333:role/Training",
        image_uri="image:1",
        instance_groups=[InstanceGroup("train", "ml.m5.xlarge", requirements="needs.txt")],
        sagemaker_session=session,
    )
    made.fit(job_name="job-1", logs=False)
    assert PyTorch.attach("job-1", session).spec.groups == made.spec.groups


@pytest.mark.parametrize("thing", [7, None, object(), SimpleNamespace(job_name=3)])
def test_what_is_no_job_is_not_asked_for(thing):
    """Its repr once went to AWS as a job's name."""
    with pytest.raises(SpecError) as caught:
        PyTorch.attach(thing)
    assert caught.value.problems[0].where == "training_job_name"


def test_a_bad_spec_starts_nothing(folder):
    with pytest.raises(SpecError) as caught:
        estimator(folder, max_run=-1, volume_size=0).fit()
    assert len(caught.value.problems) == 2
    assert LocalSession().list_training_jobs() == {"TrainingJobSummaries": []}


@pytest.mark.long
@pytest.mark.parametrize("wait", [True, False])
def test_a_warning_points_at_the_line_that_called_fit(folder, wait):
    unknown = estimator(folder, instance_type="ml.zz9.xlarge")
    with pytest.warns(UserWarning, match="not in the catalogue") as warned:
        job = unknown.fit(f"file://{folder.parent}/data", wait=wait, logs=False, local=True)
    assert {warning.filename for warning in warned} == {__file__}
    assert job.wait().status == "Completed"

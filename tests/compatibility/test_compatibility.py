"""What an earlier Launcher left is read as it was, or refused by its version.

Each folder beside this file has what the code of one commit wrote; its README says how.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loader_arguments import loader_arguments

from launcher import (
    DataError,
    DataParallel,
    Estimator,
    InstanceGroup,
    Job,
    JobFailed,
    LauncherError,
    LocalSession,
    ParallelError,
    Partition,
    PyTorch,
)
from launcher.data import DataLoader

FIXTURES = Path(__file__).parent / "a405acd"
SOURCE = FIXTURES / "source"
COMMAND = [sys.executable, "-m", "launcher"]
#: As the fixtures' logs have them: samples, and their sum.
SEEN = list(range(23))
PLACEHOLDER = "{HOME}"
LOADERS = json.loads((FIXTURES / "loaders.json").read_text())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jobs of then, as if they had run here."""
    home = tmp_path / "home"
    shutil.copytree(FIXTURES / "home", home)
    for file in home.rglob("*"):
        if file.suffix in (".json", ".log"):
            file.write_text(file.read_text().replace(PLACEHOLDER, str(home)))
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    return home


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The datasets and the model of then, beside the script that this process is."""
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(str(SOURCE))
    yield SOURCE
    for name in ("compatibility_samples", "compatibility_task"):
        sys.modules.pop(name, None)


def launcher(*words: object, code: int = 0) -> str:
    """What a verb answers; it is to end with this code."""
    done = subprocess.run(
        [*COMMAND, *map(str, words)], env=os.environ, capture_output=True, text=True, timeout=540
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def answer(*words: object, code: int = 0) -> Any:
    return json.loads(launcher(*words, "-o", "json", code=code))


def change(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


# Jobs ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_jobs_are_listed_the_newest_first(home: Path) -> None:
    jobs = {job["name"]: job["status"] for job in answer("list")["jobs"]}
    assert list(jobs) == ["task-job", "failed-job", "done-job"]
    assert jobs == {"done-job": "Completed", "failed-job": "Failed", "task-job": "Completed"}
    assert [line.split()[0] for line in launcher("list").splitlines()] == ["NAME", *jobs]


def test_the_status_of_a_job_that_completed(home: Path) -> None:
    status = answer("status", "done-job")
    assert (status["status"], status["exit_code"]) == ("Completed", 0)
    assert status["metrics"] == {"sum": 253.0}
    text = launcher("status", "done-job")
    assert "data_group (data): 1 x ml.c5.2xlarge, algo-1" in text
    assert "train_group (train): 1 x ml.g4dn.xlarge, algo-2" in text
    assert "6 batches prepared (algo-1 6)" in text
    assert "6 batches received (rank 0 6)" in text
    assert f"file://{home}/storage/done-job/output/model.tar.gz" in text


@pytest.mark.long
def test_the_status_of_a_job_that_failed(home: Path) -> None:
    status = answer("status", "failed-job", code=1)
    assert (status["status"], status["exit_code"]) == ("Failed", 1)
    assert "ValueError: told to fail" in launcher("status", "failed-job", code=1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["done-job", "failed-job"])
def test_logs_are_printed_by_group_and_host(home: Path, name: str) -> None:
    text = launcher("logs", name)
    assert "train_group/algo-2 | seen=23 sum=253" in text
    assert ("ValueError: told to fail" in text) == (name == "failed-job")
    mine = launcher("logs", name, "--group", "data_group", "-v").splitlines()
    assert mine
    assert all(line.startswith("data_group/algo-1 ") for line in mine)
    lines = [json.loads(line) for line in launcher("logs", name, "-o", "json").splitlines()]
    events = {line["event"]: line["fields"] for line in lines if "event" in line}
    assert events["batches_served"]["by_host"] == {"algo-1": 6}
    assert {line["host"] for line in lines} == {"algo-1", "algo-2"}
    times = [line["time"] for line in lines]
    assert times == sorted(times)


@pytest.mark.long
def test_results_are_downloaded(home: Path, tmp_path: Path) -> None:
    launcher("download", "done-job", tmp_path / "here")
    with tarfile.open(tmp_path / "here" / "model.tar.gz") as archive:
        member = archive.extractfile("seen.json")
        assert member is not None
        assert json.loads(member.read()) == SEEN
    with tarfile.open(tmp_path / "here" / "output.tar.gz") as archive:
        assert any(Path(name).name == "note.txt" for name in archive.getnames())
    assert answer("download", "failed-job", tmp_path / "there", code=1) == {"files": []}


def test_a_handle_on_a_job_reads_it(home: Path) -> None:
    session = LocalSession(home)
    done = Job("done-job", session).wait()
    done.raise_for_status()
    assert (done.status, done.secondary_status) == ("Completed", "Completed")
    assert done.metrics == {"sum": 253.0}
    assert done.model_data == f"file://{home}/storage/done-job/output/model.tar.gz"
    failed = Job("failed-job", session).wait()
    with pytest.raises(JobFailed, match="told to fail") as caught:
        failed.raise_for_status()
    assert caught.value.host == "algo-2"
    assert "seen=23 sum=253" in caught.value.last_lines
    with pytest.raises(JobFailed):
        _ = failed.model_data


def test_an_estimator_is_attached_to_a_job_that_completed(home: Path) -> None:
    attached = PyTorch.attach("done-job")
    job = attached.latest_training_job
    assert job is not None
    assert job.status == "Completed"
    assert attached.model_data.endswith("/done-job/output/model.tar.gz")
    spec = attached.spec
    assert spec.entry_point == "train.py"
    assert list(spec.instance_groups) == [
        InstanceGroup("data_group", "ml.c5.2xlarge", 1),
        InstanceGroup("train_group", "ml.g4dn.xlarge", 1),
    ]
    assert spec.distribution == DataParallel(processes_per_host=1)
    assert spec.data_service is not None
    assert list(spec.data_service.datasets) == ["compatibility_samples:numbers"]
    assert spec.hyperparameters == {"lr": 0.5}
    assert spec.environment == {"COLOUR": "blue"}


def test_an_estimator_is_attached_to_a_job_that_failed_and_to_a_task(home: Path) -> None:
    failed = Estimator.attach("failed-job", LocalSession(home))
    assert failed.spec.hyperparameters == {"fail": True}
    with pytest.raises(JobFailed, match="told to fail"):
        _ = failed.model_data
    task = PyTorch.attach("task-job")
    assert task.spec.task == "compatibility_task:make"
    assert task.spec.checkpoint_s3_uri == f"file://{home}/checkpoints"


def test_a_job_document_of_another_version_is_not_read(home: Path) -> None:
    job = Job("done-job", LocalSession(home))
    assert job.document() is not None
    change(home / "storage" / "done-job" / "code" / "launcher.json", version=99)
    assert job.document() is None
    assert job.metrics == {"sum": 253.0}


@pytest.mark.long
def test_a_task_resumes_from_an_old_checkpoint(home: Path, tmp_path: Path) -> None:
    """The second epoch alone: after two steps, of four."""
    pytest.importorskip("torch")
    shutil.copytree(SOURCE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    job = PyTorch(
        task="compatibility_task:make",
        source_dir=str(tmp_path / "project"),
        instance_type="local",
        instance_count=1,
        distribution=DataParallel(processes_per_host=1),
        hyperparameters={"epochs": 2},
        checkpoint_s3_uri=f"file://{home}/checkpoints",
        sagemaker_session=LocalSession(home, "process"),
    ).fit(job_name="goes-on", logs=None)
    events = [line.event for line in job.logs() if line.event]
    assert [fields["step"] for name, fields in events if name == "checkpoint_loaded"] == [2]
    epochs = [fields["epoch"] for name, fields in events if name == "data_epoch"]
    assert epochs == [1]
    assert (home / "checkpoints" / "step-4").is_dir()


# Loaders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_resumes_with_the_remaining_batches(source: Path, name: str) -> None:
    kept = LOADERS[name]
    loader = DataLoader(**loader_arguments(**kept["arguments"]))
    loader.load_state_dict(kept["state"])
    assert [batch.tolist() for batch in loader] == kept["remaining"]
    assert [batch.tolist() for batch in loader] == kept["next_epoch"]


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_at_the_same_place_has_the_same_state_today(source: Path, name: str) -> None:
    kept = LOADERS[name]
    loader = DataLoader(**loader_arguments(**kept["arguments"]))
    batches = iter(loader)
    assert [next(batches).tolist() for _ in kept["taken"]] == kept["taken"]
    state = json.loads(json.dumps(loader.state_dict()))
    added = {"prefix", "rank"} if "iterable" in name else set()  # what compares a shard's prefix
    assert state.keys() - kept["state"].keys() == added
    assert {field: state[field] for field in kept["state"]} == kept["state"]


def test_what_was_taken_and_what_was_left_is_the_epoch() -> None:
    whole = ("map-style", "map-style, any order", "iterable")
    for kept in (LOADERS[name] for name in whole):
        numbers = [number for batch in kept["taken"] + kept["remaining"] for number in batch]
        assert sorted(numbers) == SEEN


@pytest.mark.parametrize("version", [1, 3, None])
def test_a_state_of_another_version_is_refused(source: Path, version: int | None) -> None:
    kept = LOADERS["map-style"]
    loader = DataLoader(**loader_arguments(**kept["arguments"]))
    with pytest.raises(DataError, match=f"version {version}, and 2 is expected"):
        loader.load_state_dict({**kept["state"], "version": version})


# Partitions ------------------------------------------------------------------------------------


def test_a_partition_is_read_and_shown() -> None:
    file = FIXTURES / "partition.json"
    partition = Partition.read(file)
    assert (partition.task, partition.starts) == ("compatibility_task:make", ("second",))
    assert [module.name for module in partition.modules] == ["first", "second"]
    assert partition.to_json() == file.read_text()
    shown = json.loads(launcher("plan", "cut", "show", file, "--json"))
    assert shown["stages"][1]["start"] == "second"


def test_a_partition_of_another_version_is_refused(tmp_path: Path) -> None:
    file = Path(shutil.copy(FIXTURES / "partition.json", tmp_path))
    change(file, version=2)
    with pytest.raises(ParallelError, match="of version 2, and this Launcher reads version 1"):
        Partition.read(file)


# Checkpoints -----------------------------------------------------------------------------------


class Training:
    """One process that goes on from a checkpoint, with other values until it has loaded it."""

    def __init__(self, folder: Path) -> None:
        import torch
        from compatibility_task import Small

        from launcher import parallel
        from launcher.parallel.checkpoints import Checkpoints, State  # the only deeper import

        self.world = parallel.init()
        torch.manual_seed(11)
        self.model = Small()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.5)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.5)
        self.loader = DataLoader("compatibility_samples:points", 2, shuffle=True, seed=1)
        self._state = State(
            model=self.model,
            optimizers=[self.optimizer],
            shared={"scheduler": self.scheduler},
            loaders={"train": self.loader},
        )
        self._checkpoints = Checkpoints(folder, self.world)

    def load(self) -> int | None:
        return self._checkpoints.load(self._state)

    def close(self) -> None:
        from launcher import parallel

        self._checkpoints.close()
        parallel.leave()


@pytest.fixture(params=["one", "stages"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of checkpoints: of one process, of a pipeline of two stages."""
    pytest.importorskip("torch")
    return Path(shutil.copytree(FIXTURES / "checkpoints" / request.param, tmp_path / request.param))


@pytest.fixture
def training(source: Path, checkpoint: Path) -> Iterator[Training]:
    training = Training(checkpoint)
    yield training
    training.close()


def _expected(checkpoint: Path) -> dict[str, Any]:
    """What all ranks had when they saved it."""
    ranks = sorted((FIXTURES / "checkpoints").glob(f"{checkpoint.name}-rank-*.json"))
    found = [json.loads(rank.read_text()) for rank in ranks]
    merged = {key: {k: v for r in found for k, v in r[key].items()} for key in ("model", "exp_avg")}
    return {**found[0], **merged}


def test_a_checkpoint_is_loaded_as_it_was_saved(checkpoint: Path, training: Training) -> None:
    import torch

    expected = _expected(checkpoint)
    assert training.load() == 3
    assert torch.rand(2).tolist() == expected["drawn"]
    parameters = dict(training.model.named_parameters())
    assert {name: each.tolist() for name, each in parameters.items()} == expected["model"]
    kept = training.optimizer.state
    averages = {name: kept[each]["exp_avg"].tolist() for name, each in parameters.items()}
    assert averages == expected["exp_avg"]
    assert {float(kept[each]["step"]) for each in parameters.values()} == {3.0}
    assert training.optimizer.param_groups[0]["lr"] == expected["lr"]
    assert training.scheduler.last_epoch == 3
    left = [inputs[:, 0].mul(8).int().tolist() for inputs, _ in training.loader]
    assert left == expected["remaining"]


def test_a_checkpoint_of_another_format_is_refused(checkpoint: Path, training: Training) -> None:
    change(checkpoint / "step-3" / "manifest.json", format=2)
    with pytest.raises(LauncherError, match="has format 2, but this Launcher reads only 1"):
        training.load()

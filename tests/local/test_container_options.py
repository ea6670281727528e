"""The options of jobs in containers: where they come from, and that they are kept with the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from click.testing import CliRunner
from fake_engine import FakeEngine

from launcher.client.cli import main
from launcher.client.sessions import LocalSession
from launcher.errors import PlatformError

JOB = """\
entry_point: train.py
source_dir: .
image_uri: own:1
instance_type: local
"""


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path / "bin")


def run(folder: Path, *words: str) -> None:
    (folder / "train.py").write_text("")
    (folder / "job.yaml").write_text(JOB)
    result = CliRunner().invoke(main, [*words, "--yes", "--name", "job"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr


def settings(folder: Path, name: str = "job") -> dict[str, Any]:
    """How a job was run, without what differs from run to run."""
    found: dict[str, Any] = json.loads((folder / "home/jobs" / name / "settings.json").read_text())
    return found


def test_a_rerun_has_the_options_of_the_job(
    tmp_path: Path, engine: FakeEngine, credentials: pytest.MonkeyPatch
) -> None:
    credentials.setenv("AWS_SESSION_TOKEN", "short-lived")
    words = ["--isolation", "container", "--engine", str(engine.program), "--image", "own:2"]
    words += ["--host-memory", "1g", "--credentials"]
    local = ["run", str(tmp_path / "job.yaml"), "--local"]
    run(tmp_path, *local, *words)
    first = settings(tmp_path)
    assert first["has_credentials"] is True
    session = LocalSession(tmp_path / "home")
    note = session.describe_training_job(TrainingJobName="job")["LocalNotes"][-1]
    assert "which do not say when they end" in note
    assert first["container"] == {"engine": str(engine.program), "image": "own:2", "memory": "1g"}
    again = CliRunner().invoke(main, ["rerun", "job", "--name", "again", "--yes"])
    assert again.exit_code == 0, again.stderr
    assert settings(tmp_path, "again") == first
    started = engine.calls("run")
    assert len(started) == 2
    for given in started:
        assert {"--memory", "1g", "own:2", "AWS_SESSION_TOKEN"} <= {*given}
        assert "short-lived" not in " ".join(given)


def test_the_file_of_defaults_names_isolation_and_engine(
    tmp_path: Path, engine: FakeEngine, offline: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    config = tmp_path / "home/config.yaml"
    config.write_text(f"isolation: container\nengine: {engine.program}\n")
    run(tmp_path, "run", str(tmp_path / "job.yaml"), "--local")
    assert settings(tmp_path)["container"]["engine"] == str(engine.program)
    other = FakeEngine(tmp_path / "other")
    offline.setenv("LAUNCHER_ENGINE", str(other.program))
    again = CliRunner().invoke(main, ["rerun", "job", "--name", "again", "--yes"])
    assert again.exit_code == 0, again.stderr
    assert settings(tmp_path, "again")["container"]["engine"] == str(engine.program)
    assert LocalSession(isolation="process").platform.runs_image is False
    assert LocalSession().platform.runs_image is True


def test_a_gpu_that_is_not_there_is_refused(
    tmp_path: Path, engine: FakeEngine, plain_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    session = LocalSession(tmp_path / "home", "container", engine=str(engine.program))
    request = plain_bench.request("pass")
    request["AlgorithmSpecification"]["TrainingImage"] = "own:1"
    request["ResourceConfig"] = {"InstanceType": "local_gpu", "InstanceCount": 1}
    with pytest.raises(PlatformError, match="local_gpu, and this machine shows no GPU"):
        session.create_training_job(**request)

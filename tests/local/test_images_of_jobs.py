"""`launcher check --image`: what a job's image lacks is found before the job is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import fit
from click.testing import CliRunner
from containers import ENGINE, NUMPY_IMAGE, skip_without_image
from fake_engine import FakeEngine

from launcher.client.cli import main
from launcher.client.doctor import CheckResult, ImageLook, Level, container_checks
from launcher.client.request import read_job
from launcher.client.sessions import LocalSession
from launcher.errors import JobFailed

JOB = """\
entry_point: train.py
source_dir: .
image_uri: {image}
instance_groups:
  - {{instance_group_name: train, instance_type: ml.c5.xlarge, instance_count: 1}}
"""
SCRIPT = """\
import json, numpy
import mine
try:
    import wandb
except ImportError:
    wandb = None
"""


def look(folder: Path, image: str, engine: str, requirements: str = "") -> dict[str, CheckResult]:
    """What the check finds of an image, by subject."""
    (folder / "job.yaml").write_text(JOB.format(image=image))
    (folder / "train.py").write_text(SCRIPT)
    (folder / "mine.py").write_text("import yaml\n")
    if requirements:
        (folder / "requirements.txt").write_text(requirements)
    spec = read_job(folder / "job.yaml")
    messages = ImageLook(engine=engine, on_message=print)
    return {each.subject: each for each in container_checks.check(spec, messages)}


PYTHON = json.dumps(["3.12.1", {"numpy": "2.1.0", "torch": "2.6.0"}, ["numpy"]])
OLD_PYTHON = json.dumps(["3.8.1", {}, []])


@pytest.mark.parametrize(
    ("image", "said", "subject", "level", "words"),
    [
        ({}, f"0\n\n{PYTHON}", "image", "ok", "own:1 (sha256:bbbbbbbbbbbb), linux/amd64"),
        ({}, f"0\n\n{PYTHON}", "image torch", "ok", "2.6.0"),
        ({}, f"0\n\n{PYTHON}", "image packages", "problem", "mine.py, line 1, imports yaml"),
        ({}, f"0\n\n{OLD_PYTHON}", "image python", "problem", "3.8.1"),
        ({}, f"0\n\n{OLD_PYTHON}", "image numpy", "warning", "not installed"),
        ({}, "0\n/usr/bin/train", "image python", "problem", "no python3 on PATH"),
        ({}, f"1000\n\n{PYTHON}", "image user", "warning", "programs run as user 1000"),
        ({"Architecture": "arm64"}, "0\n", "image", "problem", "is for linux/arm64, and this"),
        ({"Config": {"Entrypoint": ["/x"]}}, "0\n", "image start", "ok", "starts python3 itself"),
    ],
)
def test_an_image_is_looked_into(
    tmp_path: Path, image: dict[str, Any], said: str, subject: str, level: str, words: str
) -> None:
    engine = FakeEngine(tmp_path / "bin", image=image, answers=[("run", 0, said)])
    found = look(tmp_path, "own:1", str(engine.program))
    assert found[subject].level == level, found
    assert words in found[subject].what
    assert len(engine.calls("run")) == ("Architecture" not in image)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([("ps", 125, "cannot connect")], "podman does not answer: cannot connect"),
        ([("run", 127, "no `sh`")], "own:1 cannot be looked into: no `sh`"),
        ([("run", 0, "0")], "own:1 cannot be looked into: it answered '0'"),
    ],
)
def test_an_image_that_cannot_be_looked_into_is_a_problem(
    tmp_path: Path, answers: list[Any], words: str
) -> None:
    engine = FakeEngine(tmp_path / "bin", answers=answers)
    found = look(tmp_path, "own:1", str(engine.program))["image"]
    assert (found.level, found.what) == (Level.PROBLEM, words)


@pytest.mark.library("containers")
def test_a_package_that_only_this_machine_has_is_found_before_and_named_after(
    tmp_path: Path,
) -> None:
    image = NUMPY_IMAGE
    skip_without_image(image)
    found = look(tmp_path, image, ENGINE)["image packages"]
    assert found.level is Level.PROBLEM
    assert found.what.startswith(
        "mine.py, line 1, imports yaml, which the image lacks; this machine has PyYAML"
    )
    assert "add PyYAML==" in str(found.fix)
    words = ["check", str(tmp_path / "job.yaml"), "--image", "--engine", ENGINE]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 2
    assert "which the image lacks" in " ".join(result.stdout.split())
    session = LocalSession(tmp_path / "home", "container", engine=ENGINE)
    files = {"train.py": SCRIPT, "mine.py": "import yaml\n"}
    with pytest.raises(JobFailed, match=r"(?s)No module named 'yaml'.*add PyYAML to requirements"):
        fit(session, tmp_path / "src", files, image_uri=image)
    after = look(tmp_path, image, ENGINE, requirements="pyyaml>=6\n")
    assert "image packages" not in after
    assert "which the image lacks: pyyaml>=6" in after["image requirements.txt"].what

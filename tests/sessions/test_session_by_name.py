"""The command line runs a job on a session of another package, and finds it there again."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from launcher import Estimator, JobNotFound
from launcher.client.cli import main
from launcher.client.sessions import session_of

JOB = "entry_point: train.py\nsource_dir: .\ninstance_type: ml.c5.xlarge\ninstance_count: 1\n"

pytestmark = pytest.mark.usefixtures("attic", "offline")


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('never run')\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


def cli(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.long
def test_a_job_runs_on_a_session_by_its_name(job_file: Path) -> None:
    ran = cli("run", job_file, "--session", "attic", "--name", "rings")
    assert ran.exit_code == 0, ran.output
    assert "Job rings runs on nobody's machine, in the attic" in ran.stderr

    listed = cli("list", "--session", "attic", "-o", "json")
    assert [job["name"] for job in json.loads(listed.stdout)["jobs"]] == ["rings"]
    for place in ((), ("--session", "attic")):
        status = cli("status", "rings", *place, "-o", "json")
        assert json.loads(status.stdout)["status"] == "Completed"
        assert cli("logs", "rings", *place).exit_code == 0
    assert Estimator.attach("rings").latest_training_job.session.platform.name == "attic"


def test_a_dry_run_shows_the_request_of_the_named_session(job_file: Path) -> None:
    shown = cli("run", job_file, "--session", "attic", "--dry-run", "--name", "rings")
    request = json.loads(shown.stdout)
    assert request["OutputDataConfig"]["S3OutputPath"] == "attic://shelf"
    with pytest.raises(JobNotFound):
        session_of("rings", "attic")


def test_every_session_is_asked_for_a_job_that_none_has() -> None:
    result = cli("status", "gone")
    assert result.exit_code == 2
    assert "nor does the session attic have it\n  SageMaker was not asked: no AWS" in result.stderr


def test_a_package_that_is_damaged_hides_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job_file: Path
) -> None:
    damaged = tmp_path / "damaged" / "damaged-1.0.dist-info"
    damaged.mkdir(parents=True)
    (damaged / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1.0\n")
    (damaged / "entry_points.txt").write_text("[launcher.sessions]\ncellar = cellar:Cellar\n")
    monkeypatch.syspath_prepend(str(damaged.parent))
    cli("run", job_file, "--session", "attic", "--name", "rings")
    assert cli("status", "rings").exit_code == 0
    assert "the entry point cellar = cellar:Cellar cannot be loaded" in cli("status", "x").stderr


def test_a_session_that_is_wrongly_set_up_hides_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "cellar"
    (package / "cellar-1.0.dist-info").mkdir(parents=True)
    (package / "cellar-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: cellar\nVersion: 1.0\n"
    )
    (package / "cellar-1.0.dist-info" / "entry_points.txt").write_text(
        "[launcher.sessions]\ncellar = cellar_session:Cellar\n"
    )
    (package / "cellar_session.py").write_text(
        "from launcher import Problem, SpecError\n\n\n"
        "def Cellar():\n"
        "    raise SpecError([Problem(what='no key', where='CELLAR_KEY', fix='set it')])\n"
    )
    monkeypatch.syspath_prepend(str(package))
    missing = cli("status", "x").stderr
    assert "the session cellar cannot be asked: error: no key" in missing
    assert "nor does the session attic have it" in missing


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("status", "x", "--session", "atic"),
            "there is no session 'atic': the sessions are local",
        ),
        (("status", "x", "--cloud", "--session", "attic"), "--cloud means --session aws: give one"),
        (("list", "--session", "attic", "--cloud"), "--cloud means --session aws: give one"),
        (("run", "x", "--local", "--session", "attic"), "--local means --session local: give one"),
        (("check", "--cloud", "--session", "attic"), "--cloud means --session aws: give one"),
        (("check", "--session", "atic"), "there is no session 'atic': the sessions are local"),
    ],
)
def test_a_session_that_cannot_be_meant(words: tuple[str, ...], error: str) -> None:
    result = cli(*words)
    assert result.exit_code == 2
    assert error in result.stderr


def test_the_shell_completes_sessions() -> None:
    verb = main.get_command(click.Context(main), "status")
    (option,) = (each for each in verb.params if each.name == "session")
    offered = option.shell_complete(click.Context(verb), "a")
    assert [item.value for item in offered] == ["aws", "attic"]


@pytest.mark.long
def test_check_judges_a_job_for_the_named_session(job_file: Path) -> None:
    fine = cli("check", job_file, "--session", "attic")
    assert fine.exit_code == 0, fine.output
    assert "1 x ml.c5.xlarge" in fine.stdout
    assert fine.stdout.endswith("Jobs can run on attic.\n")
    assert "This machine (only needed to run jobs here)" in fine.stdout
    assert "AWS (only needed to submit to AWS)" in fine.stdout

    refused = cli("check", job_file, "--session", "attic", "--set", "inputs={a: file:///data}")
    assert refused.exit_code == 2
    assert "file:///data is on this machine" in refused.stdout


@pytest.mark.long
def test_check_for_aws_is_short_for_its_session(job_file: Path) -> None:
    short, full = (
        [(each["subject"], each["level"]) for each in json.loads(found.stdout)["findings"]]
        for found in (
            cli("check", job_file, "--cloud", "-o", "json"),
            cli("check", job_file, "--session", "aws", "-o", "json"),
        )
    )
    assert short == full
    assert ("credentials", "problem") in short

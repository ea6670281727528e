"""A distribution of another package goes from YAML to a finished job with no change elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import launcher.client
from launcher import Job, JobSpec, LocalSession, PlatformError, SpecError
from launcher.client.doctor import package_checks
from launcher.client.estimator import constructor_arguments
from launcher.client.request import build_document, prepare
from launcher.client.sessions import place
from launcher.client.spec import as_distribution, examine
from launcher.client.submit import send
from launcher.errors import ContractError
from launcher.runtime import starter_for
from launcher.shared import JobDocument

PACKAGE = Path(__file__).parent / "ring_package"
POINTS = """\
[launcher.distributions]
ring = ring_distribution:Ring
[launcher.starters]
ring = ring_starter:RingStarter
"""
JOB = """\
entry_point: train.py
instance_type: local
distribution: {ring: {width: 3}}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install the other package; return the PYTHONPATH that has it."""
    metadata = tmp_path / "packages" / "ring-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ring\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    paths = [str(metadata.parent), str(PACKAGE)]
    for path in paths:
        monkeypatch.syspath_prepend(path)
    return ":".join(paths)


def ring(width: int) -> object:
    from ring_distribution import Ring

    return Ring(width=width)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("written", "width"), [("ring", 1), ("{ring: }", 1), ("{ring: {width: 3}}", 3)]
)
def test_it_is_read_and_written_as_yaml(written: str, width: int) -> None:
    spec = JobSpec.from_yaml(JOB.replace("{ring: {width: 3}}", written))
    assert spec.distribution == ring(width)
    assert JobSpec.from_yaml(spec.to_yaml()) == spec


@pytest.mark.usefixtures("installed")
def test_its_rules_and_fields_are_among_the_problems() -> None:
    spec = JobSpec.from_yaml(JOB.replace("3", "0"))
    assert ("width is 0", "use 1 or more") in {(found.what, found.fix) for found in examine(spec)}
    with pytest.raises(SpecError, match="remove it, or use ring, which has it"):
        JobSpec.from_yaml(JOB.replace("ring", "mpi"))
    with pytest.raises(SpecError, match='did you mean "ring"'):
        JobSpec.from_yaml(JOB.replace("{ring: {width: 3}}", "rings"))


@pytest.mark.usefixtures("installed")
def test_it_is_converted_from_a_dictionary_as_sdk_v2_writes_one() -> None:
    assert as_distribution({"ring": {"enabled": True, "width": 2}}) == ring(2)
    with pytest.raises(SpecError, match="two distributions at once: mpi and ring"):
        as_distribution({"mpi": {"enabled": True}, "ring": {"enabled": True}})


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_its_programs_are_looked_for() -> None:
    *_, found = package_checks.check(JobSpec.from_yaml(JOB))
    assert found.what == "not on PATH, but the job's distribution ring needs it"
    assert found.fix == "install ringrun"


@pytest.mark.usefixtures("installed")
def test_its_part_of_the_document_gives_it_back() -> None:
    text = build_document(JobSpec.from_yaml(JOB)).to_json()
    document = JobDocument.from_json(text)
    assert '"version": 7' in text
    assert document.trainer.settings == {"width": 3}
    assert constructor_arguments({}, document)["distribution"] == ring(3)


@pytest.mark.long
def test_a_whole_job_is_started_by_its_starter(tmp_path: Path, installed: str) -> None:
    assert ended(tmp_path, installed) == ("Completed", ["width=3 rank=0"], "")


@pytest.mark.long
def test_a_host_without_its_starter_reports_it(tmp_path: Path, installed: str) -> None:
    status, _, reason = ended(tmp_path, str(PACKAGE))
    assert status == "Failed"
    assert "launch: ring, but this image has no starter of that name" in reason


def ended(tmp_path: Path, search_path: str) -> tuple[str, list[str], str]:
    """Run the job to its end; return its status, what its script printed, and the reason."""
    source = tmp_path / "source"
    source.mkdir()
    script = "import os\nprint(f\"width={os.environ['RING_WIDTH']} rank={os.environ['RANK']}\")\n"
    (source / "train.py").write_text(script)
    spec = JobSpec.from_yaml(JOB).replace(
        source_dir=str(source), environment={"PYTHONPATH": search_path}
    )
    session = LocalSession(tmp_path / "home", "process")
    send(prepare(spec, place(spec, session, "job")), session)
    job = Job("job", session).wait()
    printed = [line.text for line in job.logs() if line.text.startswith("width=")]
    return str(job.status), printed, job.description().get("FailureReason", "")


def test_what_no_package_here_has_is_named(installed: str) -> None:
    document = build_document(JobSpec.from_yaml(JOB))
    trainer = document.trainer
    unknown = JobDocument(roles=document.roles, trainer=type(trainer)(launch="star"))
    with pytest.raises(ContractError, match="started by star, which no distribution here writes"):
        constructor_arguments({}, unknown)
    with pytest.raises(
        ContractError,
        match=r"use one of python, torchrun, mpi, multi_worker_mirrored, .*, or install",
    ):
        starter_for("star")


def test_nobody_else_asks_which_distribution_a_job_has() -> None:
    """Outside of its own folder, a distribution is what its methods return."""
    asked = re.compile(
        r"isinstance\([^)]*(DataParallel|ModelParallel|Mpi|MultiWorkerMirrored|ParameterServer|Jax|Toolkit|Torchrun)\b|distribution\.word"
    )
    client = Path(launcher.client.__file__).parent
    files = [f for f in client.rglob("*.py") if f.parent != client / "spec" / "distributions"]
    assert [str(file) for file in files if asked.search(file.read_text())] == []


def test_a_package_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "packages" / "torn-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[launcher.distributions]\ntorn = torn:Torn\n")
    monkeypatch.syspath_prepend(str(metadata.parent))
    with pytest.raises(PlatformError, match="entry point torn = torn:Torn cannot be loaded: No mo"):
        as_distribution({"torch_distributed": {"enabled": True}})

"""A data engine of another package is chosen in a job's YAML, and the job runs with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher import Job, JobSpec, LocalSession, SpecError
from launcher.client.estimator import constructor_arguments
from launcher.client.request import SourceTree, build_document, prepare
from launcher.client.sessions import place
from launcher.client.spec import check
from launcher.client.submit import send
from launcher.shared import JobDocument

JOB = """\
entry_point: train.py
source_dir: {source}
instance_groups:
  - {{instance_group_name: data_group, instance_type: {type}}}
  - {{instance_group_name: train_group, instance_type: {type}}}
data_service:
  datasets: ["pipeline:numbers"]
  engine: {engine}
"""
SCRIPT = """\
from launcher.data import DataLoader
for batch in DataLoader("pipeline:numbers", batch_size=2, tensors=False):
    print("batch", batch.tolist(), flush=True)
"""


def job(tmp_path: Path, engine: str = "counting", type: str = "local") -> JobSpec:
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    (source / "train.py").write_text(SCRIPT)
    (source / "pipeline.py").write_text("def numbers():\n    return [3, 1, 4, 1]\n")
    return JobSpec.from_yaml(JOB.format(source=source, engine=engine, type=type))


def warnings(spec: JobSpec) -> tuple[str, ...]:
    return check(spec, SourceTree(spec))


def ended(tmp_path: Path, spec: JobSpec) -> tuple[str, list[str], str]:
    """Run the job to its end; return its status, its lines, and the reason."""
    session = LocalSession(tmp_path / "home", "process")
    send(prepare(spec, place(spec, session, "job")), session)
    finished = Job("job", session).wait()
    lines = [line.text for line in finished.logs()]
    return str(finished.status), lines, finished.description().get("FailureReason", "")


def test_it_is_written_where_it_is_not_the_default(tmp_path: Path) -> None:
    spec = job(tmp_path)
    assert JobSpec.from_yaml(spec.to_yaml()) == spec
    text = build_document(spec).to_json()
    assert '"version": 7' in text
    assert (
        constructor_arguments({}, JobDocument.from_json(text))["data_service"].engine == "counting"
    )
    assert "engine" not in build_document(job(tmp_path, "launcher")).to_json()


@pytest.mark.long
def test_a_job_runs_with_it(tmp_path: Path, installed: list[str]) -> None:
    spec = job(tmp_path).replace(environment={"PYTHONPATH": ":".join(installed)})
    status, lines, reason = ended(tmp_path, spec)
    assert (status, reason) == ("Completed", "")
    assert [line for line in lines if line.startswith(("batch", "counted"))] == [
        "batch [3, 1]",
        "batch [4, 1]",
        "counted 2 batches here",
    ]
    assert {"the counting engine has stopped", "figures of pipeline:numbers"} <= {*lines}


@pytest.mark.long
def test_hosts_without_it_list_what_they_have(tmp_path: Path) -> None:
    status, _, reason = ended(tmp_path, job(tmp_path).replace(environment={"PYTHONPATH": "/none"}))
    assert status == "Failed"
    assert (
        'no data engine "counting" is installed, only launcher, tf: install the package' in reason
    )


def test_a_local_job_without_its_package_is_refused_before_it_starts(
    tmp_path: Path, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError) as refused:
        warnings(job(tmp_path))
    (problem,) = refused.value.problems
    assert problem.what == 'no package here has a data engine "counting"; there are launcher, tf'
    assert problem.where == "line 8 (data_service.engine)"
    assert problem.fix.startswith("install the package that has it as an entry point of")

    monkeypatch.syspath_prepend(installed[0])
    assert warnings(job(tmp_path)) == ()
    with pytest.raises(SpecError) as refused:
        warnings(job(tmp_path, "countin"))
    (problem,) = refused.value.problems
    assert problem.what.endswith("there are launcher, tf, counting")
    assert problem.fix == 'did you mean "counting"?'


def test_the_hosts_of_a_job_in_the_cloud_may_have_what_this_machine_has_not(
    tmp_path: Path,
) -> None:
    told = warnings(job(tmp_path, type="ml.c5.xlarge"))
    assert any("check that the job's hosts have the package that has it" in text for text in told)

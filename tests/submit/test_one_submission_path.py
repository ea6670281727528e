"""The command line and fit() submit alike: the same refusals, warnings and requests."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from launcher import LauncherError, PyTorch, RequestRefused, TrainingInput
from launcher.client.cli import main
from launcher.client.sessions import LocalSession, MemorySession
from launcher.client.spec import JobSpec, Mpi
from launcher.client.submit import draft_job

#: A place in the job file, which an Estimator does not have: "/tmp/job.yaml:5 (max_run)".
_PLACE_IN_FILE = re.compile(r"\S*job\.yaml:\d+ \((.*?)\)")


class Doors:
    """One job, given to both."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        self.folder = folder
        (folder / "train.py").write_text("print('never run')\n")
        self.inputs = arguments.pop("inputs", None)
        self.name = arguments.pop("job_name", "never-run")
        machines = {"instance_type": "local", "instance_count": 1}
        self.estimator = PyTorch("train.py", **{"source_dir": str(folder), **machines, **arguments})

    def fit(self) -> tuple[str, list[str]]:
        """Return the error of fit, and its warnings."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(LauncherError) as refused:
                self.estimator.fit(self.inputs, job_name=self.name)
        return str(refused.value), [str(each.message) for each in said]

    def run(self) -> tuple[str, list[str]]:
        """Return the error of `launcher run` for the same job in a file, and its warnings."""
        file = self.folder / "job.yaml"
        file.write_text(self.estimator.to_yaml(self.inputs))
        words = ["run", str(file), "--local", "--name", self.name, "-o", "json"]
        result = CliRunner().invoke(main, words, catch_exceptions=False)
        error = json.loads(result.stdout)["error"]["message"]
        said = re.findall(r"^warning: (.*)", result.stderr, re.M)
        return _PLACE_IN_FILE.sub(r"\1", error), said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"max_run": -1}, "max_run is -1", id="a rule"),
        pytest.param({"source_dir": "/no/such"}, "/no/such", id="the code"),
        pytest.param({"tags": {"": "x"}, "max_run": 0}, "max_run is 0", id="two rules"),
        pytest.param({"job_name": "my_job"}, "my_job", id="the name"),
        pytest.param({"inputs": "file:///no/such"}, "/no/such", id="the inputs"),
        pytest.param({"inputs": "s3://bucket/x"}, "no AWS credentials", id="credentials"),
        pytest.param(
            {"inputs": TrainingInput("file:///tmp", input_mode="Pipe")}, "Pipe", id="the machine"
        ),
    ],
)
def test_a_job_is_refused_in_the_same_words(
    offline: pytest.MonkeyPatch, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    doors = Doors(folder, **arguments)
    by_fit, by_run = doors.fit(), doors.run()
    assert words in by_fit[0]
    assert by_run == by_fit
    assert not (tmp_path / "home" / "jobs").exists()


def test_a_sessions_refusal_names_the_fields_as_they_were_written(
    offline: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    nowhere, beneath = "file:///no/such", f"file://{tmp_path}/file"
    doors = Doors(
        tmp_path,
        inputs={"train": nowhere, "code_of_mine": "s3://bucket/x"},
        model_uri=f"{nowhere}/model",
        output_path=f"{beneath}/results",
        checkpoint_s3_uri=f"{beneath}/checkpoints",
    )
    by_fit, _ = doors.fit()
    assert re.findall(r"where: (.*)", by_fit) == [
        "output_path",
        "checkpoint_s3_uri",
        "inputs.train.s3_data",
        "model_uri",
        "inputs.code_of_mine",
    ]
    assert doors.run()[0] == by_fit
    lines = (tmp_path / "job.yaml").read_text().splitlines()
    with pytest.raises(RequestRefused) as refused:
        draft_job(JobSpec.from_yaml(tmp_path / "job.yaml"), LocalSession(), "never-run").send()
    for problem in refused.value.problems:
        number = int(re.search(r"job.yaml:(\d+) ", problem.where)[1])  # type: ignore[index]
        assert lines[number - 1].strip().startswith(tuple(f"{part}:" for part in problem.path))


def test_a_dry_run_is_the_request_that_is_sent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    spec = JobSpec(
        entry_point="train.py",
        source_dir=str(tmp_path),
        instance_type="ml.c5.xlarge",
        instance_count=1,
    )
    session = MemorySession()
    draft = draft_job(spec, session, "rings")
    shown = json.dumps(draft.request)
    assert session.objects == {}
    job = draft.send()
    assert (job.name, json.dumps(session.requests["rings"])) == ("rings", shown)
    assert session.objects.keys() == draft.submission.objects.keys()


def test_what_this_machine_lacks_is_a_warning_of_local_jobs_alone(
    offline: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offline.setenv("PATH", str(tmp_path))
    (tmp_path / "train.py").write_text("")
    spec = JobSpec(
        entry_point="train.py",
        source_dir=str(tmp_path),
        instance_type="ml.c5.xlarge",
        instance_count=2,
        distribution=Mpi(),
    )
    (warning,) = draft_job(spec, LocalSession(), "here").warnings
    assert warning.startswith("mpirun: not on PATH, but the job's distribution mpi needs it")
    assert draft_job(spec, MemorySession(), "elsewhere").warnings == ()

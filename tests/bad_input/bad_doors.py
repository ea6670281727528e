"""The public doors, in a folder of their own: the command line, fit(), and the session itself."""

from __future__ import annotations

import fcntl
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from launcher import InstanceGroup, LauncherError, LocalSession, PyTorch, SpecError, TrainingInput
from launcher.client.cli import main

BAD = Path(__file__).parents[1] / "spec" / "bad"


class Refused(Exception):
    """What a door said: an error's text."""


class Door:
    """Puts one wrong input to Launcher; every method raises Refused, or AssertionError.

    folder: holds the bad files and their code; home: LAUNCHER_HOME, which no refusal may create.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.home, self.temporary = root / "work", root / "home", root / "tmp"
        self._patch = patch
        shutil.copytree(BAD, self.folder, ignore=shutil.ignore_patterns("*.yaml"))
        self.temporary.mkdir()
        patch.setenv("LAUNCHER_HOME", str(self.home))
        self._forget_aws()
        patch.setattr("tempfile.tempdir", str(self.temporary))
        patch.chdir(self.folder)
        self.start = self.files()

    def files(self) -> dict[str, int]:
        """Every file and folder there is, and when it was changed."""
        places = (self.folder, self.home, self.temporary)
        return {
            str(path): path.stat(follow_symlinks=False).st_mtime_ns
            for place in places
            for path in place.rglob("*")
        }

    def begin(self) -> None:
        """What is there now was there before the wrong input."""
        self.start = self.files()

    def copy_job(self, name: str) -> str:
        """Fetch one of the wrong jobs: a copy of all for each would take a third of the time."""
        shutil.copy(BAD / name, self.folder)
        return name

    def write_job(self, text: str) -> str:
        (self.folder / "job.yaml").write_text(text)
        return "job.yaml"

    def run(self, *arguments: str) -> None:
        self.begin()
        result = CliRunner().invoke(main, ["run", *arguments], catch_exceptions=False)
        assert result.exit_code in (2, 4), result.output
        assert result.stdout == "", "an error is no answer"
        raise Refused(result.stderr)

    def run_bytes(self, content: bytes) -> None:
        (self.folder / "job.yaml").write_bytes(content)
        self.run("job.yaml", "--local")

    def fit(self, inputs: Any, isolation: str = "process", **arguments: Any) -> None:
        self.begin()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                estimator = PyTorch(
                    "train.py",
                    source_dir="code",
                    **{"instance_type": "local", "instance_count": 1, **arguments},
                    sagemaker_session=LocalSession(isolation=isolation),
                )
                estimator.fit(inputs)
            except LauncherError as error:
                raise Refused(str(error)) from error
        raise AssertionError("the job was accepted")

    def fit_channel(self, **fields: Any) -> None:
        self.fit({"images": TrainingInput(f"file://{self.folder}/code", **fields)})

    def fit_role(self, role: Any) -> None:
        self.begin()
        try:
            InstanceGroup("group", "local", 1, role)
        except SpecError as error:
            raise Refused(str(error)) from error

    def complete_a_job(self, name: str) -> None:
        """Run a job to its end, and to that of the processes that kept it."""
        (self.folder / "code" / "train.py").write_text("")
        PyTorch(
            "train.py",
            source_dir="code",
            instance_type="local",
            sagemaker_session=LocalSession(isolation="process"),
        ).fit(job_name=name, logs=False)
        # A job ends before they do: they still tidy up, and hold its lock until they are gone.
        with (self.home / "jobs" / name / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def hide_programs(self) -> None:
        """Nothing is installed, as far as the search path goes."""
        self._patch.setenv("PATH", str(self.temporary))

    def _forget_aws(self) -> None:
        """Whoever runs this, no region and no credentials of theirs are found."""
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            self._patch.delenv(name)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            self._patch.setenv(name, str(self.temporary / "absent"))
        self._patch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def create(self, path: Sequence[Any], value: Any) -> None:
        """A request that was right, with one field changed, or taken out for None."""
        request = self._request()
        part: Any = request
        for key in path[:-1]:
            part = part[key]
        if value is None:
            del part[path[-1]]
        else:
            part[path[-1]] = value
        self._create(request)

    def create_with_channel(self, channel: Mapping[str, Any]) -> None:
        request = self._request()
        request["InputDataConfig"].append(channel)
        self._create(request)

    def _create(self, request: Mapping[str, Any]) -> None:
        self.begin()
        try:
            LocalSession(isolation="process").create_training_job(**request)
        except LauncherError as error:
            raise Refused(str(error)) from error
        raise AssertionError("the request was accepted")

    def _request(self) -> dict[str, Any]:
        source = {"S3DataType": "S3Prefix", "S3Uri": f"file://{self.folder}/code"}
        return {
            "TrainingJobName": "job",
            "RoleArn": "arn:aws:iam::000000000000:role/local",
            "AlgorithmSpecification": {
                "TrainingImage": "local",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/launch.py"],
            },
            "ResourceConfig": {
                "VolumeSizeInGB": 30,
                "InstanceType": "ml.c5.xlarge",
                "InstanceCount": 1,
            },
            "OutputDataConfig": {"S3OutputPath": f"file://{self.folder}/out"},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": source}}],
        }

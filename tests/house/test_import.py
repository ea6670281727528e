"""`import launcher` costs nothing, and its public names are all there."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import launcher
from launcher.shared import JOB_WORLD

HEAVY = ("boto3", "botocore", "yaml", "click", "rich", "torch", "numpy")
_LOADED = "import json, sys; print(json.dumps(sorted(m.split('.')[0] for m in sys.modules)))"


def modules_after(statement, **options):
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{_LOADED}"],
        capture_output=True,
        text=True,
        check=True,
        **options,
    )
    return set(json.loads(run.stdout))


def test_importing_launcher_loads_nothing_heavy():
    assert not modules_after("import launcher") & set(HEAVY)


def test_describing_a_job_needs_no_cloud_and_no_numbers():
    statement = "from launcher import Estimator, InstanceGroup, JobSpec, LocalSession, SpecError"
    heavy = {"boto3", "botocore", "torch", "numpy", "click", "rich"}
    assert not modules_after(statement) & heavy


@pytest.mark.parametrize("name", launcher.__all__)
def test_every_public_name_is_there(name):
    assert getattr(launcher, name).__name__ == name
    assert name in dir(launcher)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Estimater"):
        launcher.Estimater  # noqa: B018 (the access is the test)


IN_A_JOB = """
from launcher import DataError, LauncherError

for name in ("Estimator", "JobSpec", "LocalSession", "Job"):
    try:
        exec(f"from launcher import {name}")
    except ImportError as error:
        print(error)
"""


def test_the_job_world_has_its_own_names_and_refuses_those_of_the_sdk_clearly(tmp_path):
    """With only what travels with a job, as on a host."""
    package = Path(launcher.__file__).parent
    (tmp_path / "launcher").mkdir()
    for part in JOB_WORLD:
        if (package / part).is_dir():
            shutil.copytree(package / part, tmp_path / "launcher" / part)
        elif (package / part).exists():
            shutil.copy(package / part, tmp_path / "launcher" / part)
    statement = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\n{IN_A_JOB}"
    command = [sys.executable, "-I", "-S", "-c", statement]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    refused = run.stdout.splitlines()
    assert len(refused) == 4
    for line, name in zip(refused, ("Estimator", "JobSpec", "LocalSession", "Job"), strict=True):
        assert f"launcher.{name} is not available inside a training job" in line


def test_the_package_has_at_most_ten_entries():
    package = Path(launcher.__file__).parent
    assert len({path.name for path in package.iterdir()} - {"__pycache__"}) <= 10

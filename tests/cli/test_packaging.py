"""The sdist and the wheel: built from the sources, installed where nothing else is, and run."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import launcher

ROOT = Path(__file__).parents[2]
VERSION = launcher.__version__
#: Builds the sdist of a folder; hatchling is apart from the environment, which stays bare.
BUILD = """\
import os, sys
builder, sources, target = sys.argv[1:]
sys.path.insert(0, builder)
os.chdir(sources)
from hatchling.build import build_sdist
build_sdist(target)
"""
JOB = "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"


def run(*words, folder, code=0):
    """What a program prints, run without this repository and this interpreter's packages."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**environment, "LAUNCHER_HOME": str(folder / "home"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a new environment, in which nothing is installed but pip."""
    place = tmp_path_factory.mktemp("packaging")
    run(sys.executable, "-m", "venv", "venv", folder=place)
    return place


@pytest.fixture(scope="module")
def pip(place):
    words = (place / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "-q")
    return lambda *more: run(*words, *more, folder=place)


@pytest.fixture(scope="module")
def sdist(place, pip):
    pip("install", "hatchling", "--target", place / "builder")
    run(place / "venv/bin/python", "-c", BUILD, place / "builder", ROOT, place, folder=place)
    (file,) = place.glob("*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(place, pip, sdist):
    """The wheel, made from the sdist alone."""
    pip("wheel", "--no-deps", "--wheel-dir", place, sdist)
    (file,) = place.glob("*.whl")
    return file


@pytest.mark.long
def test_the_version_of_both_is_that_of_the_package(sdist, wheel):
    assert sdist.name == f"hetero_launcher-{VERSION}.tar.gz"
    assert wheel.name == f"hetero_launcher-{VERSION}-py3-none-any.whl"


@pytest.mark.long
def test_they_hold_the_package_and_nothing_that_was_made_from_it(sdist, wheel):
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "launcher").rglob("*.py")}
    assert package <= sources
    assert {"LICENSE", "README.md", "CHANGELOG.md", "entrypoints/launch.py"} <= sources
    assert not {name for name in sources if name.startswith((".venv", "dist/", "site/", ".mypy"))}
    assert package | {"launcher/client/request/launch.py"} <= installed
    assert {name.partition("/")[0] for name in installed} == {
        "launcher",
        "hetero_launcher",
        f"hetero_launcher-{VERSION}.dist-info",
    }


@pytest.mark.long
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax", "ray"])
def test_a_framework_is_an_extra_of_its_name_and_the_core_needs_none(wheel, framework):
    with zipfile.ZipFile(wheel) as archive:
        file = archive.read(f"hetero_launcher-{VERSION}.dist-info/METADATA").decode()
    metadata = message_from_string(file)
    assert framework in metadata.get_all("Provides-Extra")
    needs = map(Requirement, metadata.get_all("Requires-Dist"))
    markers = [need.marker for need in needs if need.name == framework]
    assert all(markers)
    assert [marker.evaluate({"extra": framework}) for marker in markers] == [True]
    assert not any(marker.evaluate({"extra": ""}) for marker in markers)


@pytest.mark.long
def test_the_wheel_runs_in_a_bare_environment(place, pip, wheel):
    pip("install", wheel)
    command = place / "venv/bin/launcher"
    assert run(command, "--version", folder=place) == f"launcher, version {VERSION}\n"
    run(command, "init", "first", folder=place)
    request = run(command, "run", "first", "--local", "--dry-run", folder=place)
    assert '"TrainingJobName"' in request
    assert "isolation process" in run(command, "check", folder=place)
    no_torch = run(command, "check", "first", folder=place, code=2)
    assert "torch" in no_torch

    job = place / "job"
    job.mkdir()
    (job / "train.py").write_text("print('hello')\n")
    (job / "job.yaml").write_text(JOB)
    run(command, "run", job, "--local", "--name", "job-1", folder=place)
    assert run(command, "logs", "job-1", folder=place).endswith("algo-1 | hello\n")

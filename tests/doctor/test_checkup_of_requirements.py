"""`launcher check` lists what would be installed, and asks no index for it."""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path

import pytest

from launcher.client.doctor import requirement_checks
from launcher.client.spec import InstanceGroup, JobSpec, read_requirements


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "requirements.txt").write_text(
        "numpy>=1  # it is here\nno-such-package>=2\n./wheels/own.whl\n"
        "windows-only ; sys_platform == 'win32'\n"
    )
    (tmp_path / "requirements-data.txt").write_text("numpy>=1\n")
    groups = (
        InstanceGroup("gpus", "local", role="train"),
        InstanceGroup("cpus", "local", role="data", requirements="requirements-data.txt"),
    )
    return JobSpec(entry_point="train.py", source_dir=str(tmp_path), instance_groups=groups)


def test_a_local_job_installs_what_this_python_has_not(spec: JobSpec) -> None:
    told = {found.subject: found.what for found in requirement_checks.check(spec, runs_image=False)}
    assert told == {
        "requirements.txt": "for group gpus, in a folder of their own: no-such-package>=2, "
        "./wheels/own.whl, and what they need",
        "requirements-data.txt": "for group cpus: this Python has all that it lists",
    }


def test_a_setup_py_is_listed_where_it_is_installed(spec: JobSpec, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").unlink()
    (tmp_path / "setup.py").write_text("import setuptools\nsetuptools.setup()\n")
    shown = {found.subject: found.what for found in requirement_checks.check(spec, runs_image=True)}
    assert shown == {
        "setup.py": "installed on each host of group gpus before the script starts: "
        "the source as a package",
        "requirements-data.txt": "installed on each host of group cpus before the script starts: "
        "numpy>=1, the source as a package",
    }


def test_a_host_on_aws_installs_all_that_its_image_has_not(spec: JobSpec) -> None:
    told = [found.what for found in requirement_checks.check(spec, runs_image=True)]
    assert told[1] == "installed on each host of group cpus before the script starts: numpy>=1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("nowhere; python_version ~= 'x'", "nowhere", id="no comparison"),
        pytest.param("nowhere; extra == 'a'", "this Python has all", id="an extra"),
        pytest.param("nowhere" + " " * 200_000 + "x", "nowhere", id="many spaces"),
        pytest.param("numpy>=1\n" * 300_000, "this Python has all", id="many times the same"),
    ],
)
def test_a_hostile_file_takes_little_time(spec: JobSpec, text: str, says: str) -> None:
    (Path(str(spec.source_dir)) / "requirements.txt").write_text(text)
    started = time.process_time()
    (first, _) = requirement_checks.check(spec, runs_image=False)
    assert says in first.what
    assert time.process_time() - started < 5


def test_a_job_without_requirements_has_no_such_line(spec: JobSpec) -> None:
    (Path(str(spec.source_dir)) / "requirements.txt").unlink()
    alone = spec.replace(instance_groups=(), instance_type="local")
    assert list(requirement_checks.check(alone, runs_image=False)) == []


def test_a_missing_requirement_is_reported_with_the_installed_version(spec: JobSpec) -> None:
    file = Path(str(spec.source_dir)) / "requirements-data.txt"
    file.write_text("numpy<1\n")
    told = list(requirement_checks.missing_requirements(spec))
    assert told[1] == (
        "requirements-data.txt (group cpus) is not installed, as you asked: "
        f"numpy<1 is not satisfied: {version('numpy')} is installed"
    )


@pytest.mark.parametrize(
    ("text", "needs_network", "reads_source"),
    [
        ("a", True, False),
        ("--no-index\n--find-links=wheels\na", False, True),
        ("-f https://example.com/wheels\na", True, False),
        ("./a.whl", False, True),
        ("a @ file:///opt/ml/code/a.whl", False, True),
        ("a @ https://example.com/a.whl", True, False),
        ("git+https://example.com/a.git", True, False),
        ("-e .", False, True),
        ("-e git+https://example.com/a.git#egg=a", True, False),
        ("# only words\n", False, False),
        ("-r other.txt", True, False),
        ("-c other.txt", False, False),
        ("-r https://example.com/more.txt", True, False),
        ("--no-index\n-f wheels\n-c https://example.com/old.txt\na", True, True),
    ],
)
def test_lines_that_need_a_network_or_the_source(
    text: str, needs_network: bool, reads_source: bool
) -> None:
    files = {"requirements.txt": text, "other.txt": "b\n-r requirements.txt\n"}
    found = read_requirements("requirements.txt", files.get)
    assert found is not None
    assert (found.needs_network, found.reads_source) == (needs_network, reads_source)


def test_a_file_of_powershell_is_read_as_pip_reads_it() -> None:
    """`pip freeze > requirements.txt` in PowerShell 5 writes UTF-16 with a byte order mark."""
    text = "torch==2.13.0\r\n# a comment\r\n-r other.txt\r\n".encode("utf-16")
    files = {"requirements.txt": text.decode("utf-8", "replace"), "other.txt": "b\n"}
    found = read_requirements("requirements.txt", files.get)
    assert found is not None
    assert found.lines == ("torch==2.13.0", "b")
    assert found.names("torch")

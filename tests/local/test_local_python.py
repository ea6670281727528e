"""The hosts of a local job run in another interpreter than the client's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench import fit, printed
from packages import make_wheel

from launcher import LocalSession, PlatformError
from launcher.client.doctor import unmet_needs
from launcher.client.sessions import HostPython, host_python
from launcher.client.spec import DataService, JobSpec

SCRIPT = """\
import subprocess, sys
from importlib.metadata import version
print("prefix", sys.prefix, "only_here", version("only-here"))
print("child", subprocess.run(["python", "-c", "import sys; print(sys.prefix)"], text=True,
                              capture_output=True).stdout.strip())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with one package, and without pip."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/*/site-packages")
    (packages / "only_here-1.5.dist-info").mkdir()
    (packages / "only_here-1.5.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: only-here\nVersion: 1.5\n"
    )
    return folder


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["process", None], ids=["process", "default"])
def test_hosts_run_in_it_with_its_packages(
    environment: Path, tmp_path: Path, isolation: str | None
) -> None:
    session = LocalSession(tmp_path / "home", isolation, python=str(environment))
    job = fit(session, tmp_path / "source", {"train.py": SCRIPT})
    lines = [f"prefix {environment} only_here 1.5", f"child {environment}"]
    assert printed(job) == {"algo-1": lines}
    again = session.session_as_of("job")
    assert again.platform.python == str(environment / "bin" / "python")


@pytest.mark.long
def test_requirements_are_installed_on_top_of_it(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    source = tmp_path / "source"
    make_wheel(source / "wheels", "small_a", "1.0")
    files = {
        "requirements.txt": "--no-index\n--find-links wheels\nsmall-a\n",
        "train.py": f"{SCRIPT}import small_a\nprint(small_a.VERSION)\n",
    }
    session = LocalSession(tmp_path / "home", python=str(environment / "bin" / "python"))
    (lines,) = printed(fit(session, source, files)).values()
    assert lines[0].endswith("only_here 1.5")
    assert lines[-1] == "1.0"


def test_a_name_on_path_a_folder_and_a_path_mean_the_same(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = environment / "bin" / "python"
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    found = {host_python(each).executable for each in ("python", str(environment), str(program))}
    assert found == {str(program)}
    assert host_python(None).executable == sys.executable


def old(folder: Path) -> Path:
    """A program that answers as Python 3.9 does."""
    facts = '{"executable": "/x", "version": [3, 9, 18], "build": "", "prefixes": [], "path": [], '
    facts += '"site_folders": [], "packages": [], "has_pip": true}'
    return program(folder, f"echo '{facts}'")


def program(folder: Path, body: str) -> Path:
    file = folder / "python-like"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda folder: folder / "none", "there is no such program", id="nothing"),
        pytest.param(lambda folder: folder, "there is no such program", id="another folder"),
        pytest.param(old, "it is Python 3.9.18", id="too old"),
        pytest.param(
            lambda folder: program(folder, "echo no >&2; exit 2"),
            "it did not name its version (no)",
            id="another program",
        ),
    ],
)
def test_what_cannot_run_hosts_is_refused_before_anything_is_made(
    make: object, why: str, tmp_path: Path
) -> None:
    given = str(make(tmp_path))  # type: ignore[operator]  # a function of the folder
    with pytest.raises(PlatformError, match="give the path of a Python") as refused:
        LocalSession(tmp_path / "home", python=given)
    assert f"hosts cannot run in the Python {given!r}: {why}" in str(refused.value)
    assert not (tmp_path / "home").exists()


def test_packages_are_looked_for_in_it(environment: Path) -> None:
    spec = JobSpec(entry_point="train.py", instance_type="local", data_service=DataService())
    (warning,) = unmet_needs(spec, str(environment))
    assert warning.startswith(f"numpy: not installed for {environment}; the data service needs it")


@pytest.mark.parametrize(
    ("entry", "name", "version"),
    [
        ("torch-2.1.0+cpu.dist-info", "torch", "2.1.0+cpu"),
        ("typing_extensions-4.1.dist-info", "typing-extensions", "4.1"),
        ("ruamel.yaml-0.17-py3.10.egg-info", "ruamel-yaml", "0.17"),
        ("six.egg-info", "six", None),
    ],
)
def test_a_package_is_known_by_the_name_of_its_folder(
    entry: str, name: str, version: str | None
) -> None:
    python = HostPython.of({**vars(host_python(None)), "packages": [entry]})
    assert python.installed(name) == version

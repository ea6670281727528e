"""On SageMaker each host installs requirements.txt by itself, before anything else runs there."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hosts import Hosts
from packages import Index, serve_index
from waiting import wait_until

from launcher.shared import CommandPart, JobDocument, Lifetime, Role, TrainerPart

TRAIN = "import small_a\nprint('has small-a', small_a.VERSION)\n"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with serve_index(tmp_path / "index") as index:
        yield index


@pytest.fixture
def image(tmp_path: Path) -> str:
    """An image's Python, which hosts may install into."""
    folder = tmp_path / "image"
    venv.EnvBuilder(symlinks=True).create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    own = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (packages / "zz_pip.pth").write_text(
        "".join(f"import site; site.addsitedir({p!r})\n" for p in own)
    )
    return str(folder / "bin" / "python")


@pytest.fixture
def make(
    make_cluster: Callable[..., Hosts], index: Index, image: str
) -> Callable[[JobDocument, Mapping[str, str]], Hosts]:

    def make(
        document: JobDocument,
        files: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> Hosts:
        groups = dict.fromkeys(document.roles, 1)
        variables = {
            "PIP_INDEX_URL": index.url,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
            **(environment or {}),
        }
        return make_cluster(document, groups, files, python=image, environment=variables)

    return make


ALONE = JobDocument(roles={"gpus": Role.TRAIN}, trainer=TrainerPart(entry_point="train.py"))
WITH_HELPER = JobDocument(
    roles={"gpus": Role.TRAIN, "helpers": Role.COMMAND},
    trainer=TrainerPart(entry_point="train.py"),
    commands={"helpers": CommandPart(command=("python", "helper.py"), lifetime=Lifetime.OWN)},
    requirements={"helpers": "requirements-helper.txt"},
)


@pytest.mark.long
def test_the_script_finds_what_the_host_has_installed(make, index: Index, image: str) -> None:
    index.add("small_a")
    hosts = make(ALONE, {"train.py": TRAIN, "requirements.txt": "small-a\n"})
    hosts.run()
    output = hosts["algo-1"].output
    assert "has small-a 1.0" in output
    assert "Successfully installed small-a-1.0" in output, "pip's words are in the log"
    order = [output.index(word) for word in ("requirements_installed", "has small-a")]
    assert order == sorted(order)


@pytest.mark.long
def test_a_group_installs_its_own_file_and_a_failure_ends_the_job_at_once(
    make, index: Index
) -> None:
    files = {
        "train.py": "import time; time.sleep(600)",
        "helper.py": "",
        "requirements-helper.txt": "no-such-package\n",
    }
    hosts = make(WITH_HELPER, files)
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}, hosts.output()
    assert hosts["algo-1"].failure is None
    failure = hosts["algo-2"].failure
    assert failure.startswith(
        "host algo-2 (helpers): pip could not install requirements-helper.txt: exit code 1\n"
    )
    assert failure.rstrip().endswith("No matching distribution found for no-such-package")


#: A project: its modules are in lib/, its script is elsewhere, and it needs another package.
PROJECT = {
    "setup.py": "from setuptools import setup\n"
    "setup(name='mine', version='2.0', package_dir={'': 'lib'}, py_modules=['of_mine'],\n"
    "      install_requires=['small-a'], entry_points={'console_scripts': ['mine=of_mine:main']})",
    "lib/of_mine.py": "def main(): print('main of mine')",
    "train.py": "import of_mine, subprocess; subprocess.run(['mine'], check=True)\n" + TRAIN,
}


@pytest.mark.parametrize("also", [None, "small-b\n"], ids=["alone", "with requirements.txt"])
def test_a_setup_py_is_installed_as_the_toolkit_does(
    make, index: Index, image: str, also: str | None
) -> None:
    pytest.importorskip("setuptools")
    index.add("small_a")
    index.add("small_b")
    files = {**PROJECT, **({"requirements.txt": also} if also else {})}
    if also:
        files["train.py"] += "import small_b\n"
    hosts = make(ALONE, files, {"PATH": f"{Path(image).parent}:{os.environ['PATH']}"})
    hosts.run()
    assert "has small-a 1.0" in hosts["algo-1"].output
    (event,) = hosts["algo-1"].events("requirements_installed")
    assert event["file"] == ("requirements.txt" if also else "setup.py")
    assert "\nmain of mine\n" in hosts["algo-1"].output


def test_a_setup_py_that_describes_no_package_is_a_file_like_others(make) -> None:
    hosts = make(ALONE, {"train.py": "import setup", "setup.py": "print('set up', __name__)"})
    hosts.run()
    assert "\nset up setup\n" in hosts["algo-1"].output
    assert not hosts["algo-1"].events("requirements_started")


def test_an_installation_has_a_time_limit(make, index: Index) -> None:
    files = {"train.py": "", "requirements.txt": "small-a\n"}
    hosts = make(ALONE, files, {"LAUNCHER_INSTALL_TIMEOUT": "1"})
    with index.blocked():
        hosts.fail()

    assert "pip did not install requirements.txt within 1 s" in hosts["algo-1"].failure
    assert hosts.processes() == []


def test_a_time_limit_that_is_none_fails_the_job(make) -> None:
    """In a request of another SDK, which no rule of a job file has seen."""
    files = {"train.py": "", "requirements.txt": "small-a\n"}
    hosts = make(ALONE, files, {"LAUNCHER_INSTALL_TIMEOUT": "30m"})
    hosts.fail()
    words = "LAUNCHER_INSTALL_TIMEOUT is '30m', and must be a number of seconds"
    assert words in hosts["algo-1"].failure


@pytest.mark.long
def test_a_host_that_installs_can_be_stopped(make, index: Index) -> None:
    hosts = make(ALONE, {"train.py": "", "requirements.txt": "small-a\n"})
    with index.blocked():
        hosts.start()
        wait_until(lambda: index.asked)
        hosts.terminate()
        assert hosts.wait() == {"algo-1": 143}, hosts.output()
    assert hosts["algo-1"].failure is None


def test_a_platform_that_has_installed_is_believed(make, index: Index) -> None:
    files = {"train.py": "print('trained')", "requirements.txt": "no-such-package\n"}
    hosts = make(ALONE, files, {"LAUNCHER_REQUIREMENTS": "installed"})
    hosts.run()
    (event,) = hosts["algo-1"].events("requirements")
    assert event["platform"] == "installed"
    assert index.asked == []


def test_the_runtime_has_not_imported_numpy_when_pip_runs() -> None:
    program = "import sys, launcher.runtime.main; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"

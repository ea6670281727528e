"""What a module's name means on a host where the user's files have it: signal.py, launcher.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosts import Hosts

from launcher.shared import Launch

MakeHosts = Callable[..., Hosts]


def ran(hosts: Hosts) -> list[str]:
    """What the script of a host has printed; it ended well."""
    hosts.run()
    lines = hosts["algo-1"].output.splitlines()
    return [line for line in lines if not line.startswith("launcher: ")]


# The layout of repositories ---------------------------------------------------------------------

TELLS = """
import os, sys
from pathlib import Path
import beside, root
print(Path.cwd() == Path(os.environ["SM_MODULE_DIR"]), Path("root.txt").exists(), beside, root)
print(sys.path[0] == os.path.dirname(os.path.abspath(__file__)), Path(sys.argv[0]).is_absolute())
"""


@pytest.mark.parametrize(
    "launch", [Launch.PYTHON, pytest.param(Launch.TORCHRUN, marks=pytest.mark.long)]
)
def test_a_script_in_a_folder_runs_in_the_code_folder_and_imports_from_its_own(
    make_hosts: MakeHosts, launch: Launch
) -> None:
    files = {
        "root.txt": "",
        "root.py": "",
        "beside.py": "1 / 0",
        "deep/er/beside.py": "",
        "deep/er/train.py": TELLS,
    }
    hosts = make_hosts(files, entry_point="deep/er/train.py", launch=launch)
    where, paths = ran(hosts)
    assert where.startswith("True True <module 'beside' from ")
    assert "deep/er/beside.py" in where
    assert paths == "True True"


def test_a_shell_script_in_a_folder_runs_in_the_code_folder(make_hosts: MakeHosts) -> None:
    files = {"root.txt": "found\n", "sub/run.sh": "#!/bin/sh\ncat root.txt; echo $0 $1\n"}
    hosts = make_hosts(files, entry_point="sub/run.sh", hyperparameters={"epochs": 1})
    found, arguments = ran(hosts)
    assert found == "found"
    assert arguments.endswith("/sub/run.sh --epochs")


@pytest.mark.parametrize("project", ["pyproject.toml", "setup.cfg", None])
def test_the_modules_of_a_project_are_found_in_src(
    make_hosts: MakeHosts, project: str | None
) -> None:
    files = {"src/pack/__init__.py": "", "scripts/train.py": FINDS, "scripts/child.py": FINDS}
    hosts = make_hosts(
        {**files, **({project: ""} if project else {})}, entry_point="scripts/train.py"
    )
    found = project is not None
    assert ran(hosts) == [f"child.py {found}", f"train.py {found}"]


FINDS = """
import subprocess, sys
from importlib.util import find_spec
from pathlib import Path
if "train" in __file__:
    subprocess.run([sys.executable, "scripts/child.py"], check=True)
print(Path(__file__).name, bool(find_spec("pack")), flush=True)
"""


# Names of the standard library ------------------------------------------------------------------

#: What Launcher, numpy or torch import of the standard library, and what Python does as it starts.
HIDDEN = ("signal", "select", "types", "json", "socket", "queue", "random", "logging", "io", "re")
TRAPS = {f"{name}.py": "raise SystemExit('imported')" for name in HIDDEN}
TRAPS["email/__init__.py"] = "raise SystemExit('imported')"
USES = """
import multiprocessing, subprocess, sys
import numpy
from launcher.data import DataLoader

if __name__ == "__main__":
    child = "import signal; print('child', signal.SIGTERM.name, flush=True)"
    subprocess.run([sys.executable, "-c", child], check=True)
    subprocess.run([sys.executable, "-m", "json.tool", "/dev/null"], capture_output=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(int, ("3",)))
    print("RAN")
"""


@pytest.mark.parametrize(
    "launch", [Launch.PYTHON, pytest.param(Launch.TORCHRUN, marks=pytest.mark.long)]
)
def test_files_that_nobody_means_hide_no_module(make_hosts: MakeHosts, launch: Launch) -> None:
    hosts = make_hosts({**TRAPS, "train.py": USES}, launch=launch)
    assert ran(hosts) == ["child SIGTERM", "3", "RAN"]


def test_who_means_such_a_file_gets_it_and_libraries_do_not(make_hosts: MakeHosts) -> None:
    script = """
import resource, signal, profile, types
print(resource.MINE, signal.MINE, profile.MINE, types.MINE)
"""
    asks_last = """
import asyncio, sys
from launcher.runtime.host import processes
print(sys.modules["signal"] is processes.signal)
"""
    names = ("resource", "signal", "profile", "types")
    mine = {f"{name}.py": "MINE = 1" for name in names}
    assert ran(make_hosts({**mine, "train.py": script})) == ["1 1 1 1"]
    assert ran(make_hosts({**mine, "train.py": asks_last})) == ["True"]


@pytest.mark.parametrize(
    ("uses", "error"),
    [
        ("import numbers\nimport fractions", "AttributeError: module 'numbers' has no"),
        ("import bisect\nimport statistics", "ImportError: cannot import name 'bisect"),
    ],
    ids=["an attribute", "a name"],
)
def test_an_error_of_a_library_names_the_file_that_the_user_has_imported(
    make_hosts: MakeHosts, uses: str, error: str
) -> None:
    name = uses.split()[1]
    hosts = make_hosts({f"{name}.py": "MINE = 1", "train.py": uses})
    hosts.fail()
    cause = str(hosts["algo-1"].failure).splitlines()[0]
    assert error in cause
    words = f"({name}.py of your code hides Python's own module {name}: give it another name)"
    assert cause.endswith(words)


def test_a_data_host_prepares_samples_beside_such_files(make_hosts: MakeHosts) -> None:
    pipeline = "import numbers_of\ndef train_set():\n    return numbers_of.NUMBERS\n"
    reads = """
from launcher.data import DataLoader
print([batch.tolist() for batch in DataLoader("pipeline:train_set", batch_size=2)])
"""
    files = {**TRAPS, "pipeline.py": pipeline, "numbers_of.py": "NUMBERS = [1, 2, 3, 4]"}
    hosts = make_hosts({**files, "train.py": reads}, data=1)
    hosts.run()
    assert "[[1, 2], [3, 4]]" in hosts["algo-2"].output


# The package's own name -------------------------------------------------------------------------


def test_a_users_module_launcher_and_the_package_work_beside_each_other(
    make_hosts: MakeHosts,
) -> None:
    users = """
print("runs", __name__)
from launcher.data import DataLoader
class Net: pass
def main(): return "USER LAUNCHER"
def report(): return "of the user"
"""
    script = """
import pickle
import launcher
from launcher.data import DataLoader
import launcher.errors
print(launcher.main(), launcher.report(), launcher.errors.DataError.__name__)
from launcher import main, Net
print(pickle.loads(pickle.dumps(Net())).__class__ is Net, main is launcher.main)
try:
    launcher.nothing
except AttributeError as error:
    print(error)
"""
    lines = ran(make_hosts({"launcher.py": users, "train.py": script}))
    assert lines[:3] == ["runs launcher", "USER LAUNCHER of the user DataError", "True True"]
    assert lines[3].startswith("neither Launcher nor ")
    assert lines[3].endswith("/code/launcher.py has 'nothing'")


def test_children_of_an_entry_point_launcher_py_do_not_start_it_again(
    make_hosts: MakeHosts,
) -> None:
    entry = """
import subprocess, sys
print("entry point", __name__, flush=True)
subprocess.run([sys.executable, "./train_dnn.py"], check=True)
subprocess.run(f"cd sub && {sys.executable} ../train_dnn.py", shell=True, check=True)
VALUE = 1
import launcher
print(launcher.VALUE)
"""
    child = """
from launcher import data
from launcher.data import DataLoader
import hetero_launcher.data
print("child", hetero_launcher.data is data, hetero_launcher.data.DataLoader is DataLoader)
"""
    hosts = make_hosts(
        {"launcher.py": entry, "train_dnn.py": child, "sub/x": ""}, entry_point="launcher.py"
    )
    assert ran(hosts) == ["entry point __main__", *["child True True"] * 2, "1"]


def test_a_users_package_launcher_has_its_submodules(make_hosts: MakeHosts) -> None:
    files = {
        "launcher/__init__.py": "from .config import SIZE\n",
        "launcher/config.py": "SIZE = 3\n",
        "train.py": "import launcher.config, launcher.data\nfrom launcher import SIZE\nprint(SIZE)",
    }
    assert ran(make_hosts(files)) == ["3"]


def test_a_sitecustomize_of_others_runs_too(make_hosts: MakeHosts) -> None:
    files = {"sitecustomize.py": "print('mine')", "train.py": "print('script')"}
    assert {"mine", "script"} <= set(ran(make_hosts(files)))  # in several processes

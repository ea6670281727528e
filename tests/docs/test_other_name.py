"""hetero_launcher, the distribution's name, is the package in a folder with a launcher.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher import JobSpec, LocalSession
from launcher.client.doctor import Level, job_file_checks

USERS = "print('the entry point runs')\ndef main(): return 'theirs'\n"
SAME = """
import sys
import hetero_launcher.data
import hetero_launcher.client.spec as spec
import hetero_launcher
import launcher, launcher.data, launcher.client.spec
from hetero_launcher import Estimator, InstanceGroup
from hetero_launcher.errors import SpecError
assert hetero_launcher is launcher is sys.modules["hetero_launcher"] is sys.modules["launcher"]
assert hetero_launcher.data is launcher.data is sys.modules["hetero_launcher.data"]
assert spec is launcher.client.spec
assert Estimator is launcher.Estimator and SpecError is launcher.SpecError
assert launcher.__spec__.name == "launcher" and launcher.data.__spec__.name == "launcher.data"
try:
    import hetero_launcher.nothing
except ModuleNotFoundError as error:
    print(error)
"""
BEFORE = "import launcher as users\n"
AFTER = "assert users.main() == launcher.main()\nfrom launcher import main\nprint(main())\n"


def printed(folder: Path, script: str) -> list[str]:
    (folder / "launcher.py").write_text(USERS)
    (folder / "notebook.py").write_text(script)
    run = subprocess.run(
        [sys.executable, "notebook.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_it_is_the_very_same_package_and_the_users_file_does_not_run(tmp_path: Path) -> None:
    assert printed(tmp_path, SAME) == ["No module named 'hetero_launcher.nothing'"]


@pytest.mark.parametrize("before", [BEFORE, ""], ids=["imported before", "not yet"])
def test_the_names_of_the_users_file_are_there_too(tmp_path: Path, before: str) -> None:
    script = before + SAME + (AFTER if before else "from launcher import main\nprint(main())\n")
    assert sorted(printed(tmp_path, script)) == [
        "No module named 'hetero_launcher.nothing'",
        "the entry point runs",
        "theirs",
    ]


@pytest.mark.parametrize("users", ["launcher.py", "launcher/__init__.py"])
def test_check_says_when_to_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: str
) -> None:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    (tmp_path / "src" / users).parent.mkdir(parents=True)
    (tmp_path / "src" / users).write_text("")
    (tmp_path / "src" / "train.py").write_text("")
    job_file = tmp_path / "job.yaml"
    job_file.write_text("entry_point: train.py\nsource_dir: src\ninstance_type: local\n")
    spec = JobSpec.from_yaml(job_file)
    findings = job_file_checks.check_job(job_file, spec, LocalSession(tmp_path / "home"))
    assert [found.level for found in findings] == [Level.OK, Level.OK]
    assert findings[1].what.startswith(f"{users} has this package's name")
    assert "`import hetero_launcher`" in findings[1].what

"""What a run that skips tests says at its end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from needs import skipped_line

TESTS = """\
import pytest
from needs import needs_program

needs_nothing = needs_program("no-such-program", "made-up-package other-package")

@needs_nothing
@pytest.mark.parametrize("number", range(3))
def test_a_program(number): ...

def test_a_module():
    pytest.importorskip("no_such_module.part")

@pytest.mark.skipif(True, reason="one CPU\\nhas nothing to share")
def test_a_reason(): ...

def test_that_runs(): ...
"""
SAID = [
    "1 for one CPU has nothing to share",
    "1 for the module no_module",
    "1 for the module no_such_module.part",
    "3 for made-up-package and other-package",
]
MEND = " (apt-get install made-up-package other-package)"
FOLDER = Path(__file__).parents[1]


def test_a_run_says_in_one_line_what_it_has_skipped_and_why(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "conftest.py", tmp_path)
    (tmp_path / "test_made_up.py").write_text(TESTS)
    (tmp_path / "test_all.py").write_text("import pytest\npytest.importorskip('no_module')")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", FOLDER.parent / "pyproject.toml", "-n2", tmp_path],
        env={**os.environ, "PYTHONPATH": str(FOLDER / "kit")},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("skipped: ")]
    assert sorted(line.removesuffix(MEND)[9:].split(", ")) == SAID


def test_all_packages_of_a_reason_are_named() -> None:
    reason = (
        "isolation 'network' does not work here: ip is not on PATH: on Debian and Ubuntu, "
        "apt-get install iproute2; bwrap is not on PATH: on Debian and Ubuntu, apt-get install "
        "bubblewrap; or use isolation 'process'"
    )
    assert skipped_line([reason] * 2) == (
        "skipped: 2 for bubblewrap and iproute2 (apt-get install bubblewrap iproute2)"
    )

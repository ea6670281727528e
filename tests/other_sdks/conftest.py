"""Other people's clients, each in an environment of its own, which is kept in pytest's cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_INSTALL_SECONDS = 1500


@pytest.fixture(scope="session")
def programs_of(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """The folder of the programs of a package that is installed alone; made at first use."""
    assert pytestconfig.cache is not None

    def find(requirement: str) -> Path:
        environment = pytestconfig.cache.mkdir("other-sdks") / requirement
        complete = environment / "complete"
        if not complete.exists():
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            install = [environment / "bin" / "pip", "install", "-q", requirement]
            result = subprocess.run(
                install, timeout=_INSTALL_SECONDS, capture_output=True, text=True, check=False
            )
            if result.returncode != 0:
                pytest.skip(f"{requirement} cannot be installed here: {result.stderr[-500:]}")
            complete.touch()
        return environment / "bin"

    return find

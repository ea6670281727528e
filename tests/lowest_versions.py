"""Runs the fast tests with the lowest versions that pyproject.toml allows: `make lowest`.

The environment, `.venv-lowest`, has those of what a user installs with `pip install
hetero-launcher[endpoint]`; what it lacks, such as PyTorch and pytest, comes from the environment
that runs this script.

    python tests/lowest_versions.py [PYTEST ARGUMENTS...]
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires

from library_run import ROOT, environment, versions

_LOWEST = re.compile(r"^([\w.-]+(?:\[[\w,]+\])?) *>= *([\w.]+)")
#: Packages of these extras are pinned too.
_EXTRAS = ("endpoint",)


def main(*arguments: str) -> int:
    pins = lowest()
    python = environment("lowest", pins, constraints=())
    print(versions(python, pins), flush=True)
    return subprocess.run([python, "-m", "pytest", "-q", *arguments], cwd=ROOT).returncode


def lowest() -> list[str]:
    """The lowest version of each package that is needed, as pip takes it."""
    extras = "|".join(_EXTRAS)
    found = []
    for requirement in requires("hetero-launcher") or []:
        need, _, marker = requirement.partition(";")
        if marker and not re.search(rf"extra == ['\"]({extras})['\"]", marker):
            continue
        match = _LOWEST.match(need.strip())
        assert match is not None, f"{need} has no lower bound"
        found.append(f"{match[1]}=={match[2]}")
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

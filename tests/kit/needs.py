"""What a test needs of the machine beside Python, and the line that says what was skipped for it.

A reason that names what to install, as "apt-get install ...", is counted by it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest
from containers import NUMPY_IMAGE, skip_without_image

_PACKAGES = re.compile(r"apt-get install ([a-z0-9.+-]+(?: [a-z0-9.+-]+)*)")
_MODULE = re.compile(r"could not import '([\w.]+)'")


def needs_program(program: str, package: str) -> pytest.MarkDecorator:
    """Skip a test where a program is not on PATH."""
    return pytest.mark.skipif(
        shutil.which(program) is None,
        reason=f"{program} is not on PATH: apt-get install {package}",
    )


needs_mpirun = needs_program("mpirun", "openmpi-bin")


def skip_without_isolation(isolation: str) -> None:
    """Skip a test where an isolation does not work, with the obstacle as its reason."""
    from launcher.client.sessions import choose_isolation  # slow, for few tests
    from launcher.errors import PlatformError

    try:
        choose_isolation(isolation)
    except PlatformError as error:
        pytest.skip(str(error))
    if isolation == "container":
        skip_without_image(NUMPY_IMAGE)


def skipped_line(reasons: Iterable[str]) -> str:
    """One line: how many tests were skipped for want of what, and how to install it."""
    reasons = list(reasons)
    wanted = Counter(map(_wanted, reasons)).most_common()
    packages = sorted({name for reason in reasons for name in _packages(reason)})
    mend = f" (apt-get install {' '.join(packages)})" if packages else ""
    return "skipped: " + ", ".join(f"{count} for {want}" for want, count in wanted) + mend


def _wanted(reason: str) -> str:
    """What to install, or else the reason itself."""
    if module := _MODULE.search(reason):
        return f"the module {module[1]}"
    return " and ".join(_packages(reason)) or " ".join(reason.split())


def _packages(reason: str) -> list[str]:
    found = (name for names in _PACKAGES.findall(reason) for name in names.split())
    return sorted(set(found))

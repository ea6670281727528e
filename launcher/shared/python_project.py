"""The user's source as a Python project, which AWS's toolkit installs if it has a setup.py.

Source: modules.py and _entry_point_type.py of sagemaker-training 5.1.4: with a setup.py, it runs
`pip install .` in the code folder. It installs nothing for a pyproject.toml alone.
"""

from __future__ import annotations

import re

SETUP_FILE = "setup.py"
BUILD_FILE = "pyproject.toml"
#: What describes a package to pip imports one of these; a setup.py without is a script.
_BUILDERS = re.compile(
    r"^\s*(?:from|import)\s.*\b(?:setuptools|distutils|skbuild|cpp_extension)\b", re.MULTILINE
)


def describes_package(setup: str) -> bool:
    """Return whether the text of a setup.py describes a package to pip.

    >>> describes_package("from setuptools import setup")
    True
    >>> describes_package("print('set up')")
    False
    """
    return _BUILDERS.search(setup) is not None


def project_arguments(build: str | None, setuptools: str | None, *, has_wheel: bool) -> list[str]:
    """Return pip's arguments that install the project in its working folder.

    build: the text of its pyproject.toml. setuptools: the installed version. Without a build
    system of its own, the installed setuptools builds it, as it did for the toolkit: no index is
    needed for that.

    >>> project_arguments(None, "80.9.0", has_wheel=False)
    ['.', '--no-build-isolation']
    >>> project_arguments("[build-system]", "80.9.0", has_wheel=False)
    ['.']
    """
    names_its_own = build is not None and "[build-system]" in build
    can_build = setuptools is not None and (has_wheel or _version(setuptools) >= (70, 1))
    return ["."] if names_its_own or not can_build else [".", "--no-build-isolation"]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])

"""Facts about the Python that runs this file, as JSON; hosts may run in another one than ours.

Standard library only, and no import of this package: it is run as a file, with `python -I`.
"""

from __future__ import annotations

import json
import os
import site
import sys
import warnings
from importlib.util import find_spec
from typing import Any

_PACKAGES = ("site-packages", "dist-packages")


def python_facts() -> dict[str, Any]:
    """Return the fields of a HostPython that describes the running Python."""
    return {
        "executable": sys.executable,
        "version": list(sys.version_info[:3]),
        "build": sys.version,
        "prefixes": [sys.prefix, sys.base_prefix],
        "path": sys.path,
        "site_folders": _site_folders(),
        "packages": _installed_names(),
        "has_pip": _has_pip(),
    }


def _has_pip() -> bool:
    """Return whether pip can be imported; setuptools warns of it where distutils has been."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return find_spec("pip") is not None


def _site_folders() -> list[str]:
    return [folder for folder in site.getsitepackages() if os.path.isdir(folder)]  # noqa: PTH112


def _installed_names() -> list[str]:
    """Return the entries that name a package and its version in the folders of packages."""
    folders = {path for path in sys.path if os.path.basename(path) in _PACKAGES}  # noqa: PTH119
    return sorted(
        entry
        for folder in folders | set(_site_folders())
        if os.path.isdir(folder)  # noqa: PTH112
        for entry in os.listdir(folder)  # noqa: PTH208 (names alone, of thousands)
        if entry.endswith((".dist-info", ".egg-info"))
    )


if __name__ == "__main__":
    json.dump(python_facts(), sys.stdout)

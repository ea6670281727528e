"""The versions of Python and of packages on a host, reported to the leader."""

from __future__ import annotations

import ast
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from launcher.runtime.host.event_log import emit
from launcher.runtime.host.job_host import JobHost
from launcher.shared import Role

#: Packages whose versions every host reports, if it has them.
_ALWAYS = ("numpy", "torch")


def report_versions(host: JobHost) -> None:
    """Report this host's versions to the leader, if some hosts prepare data and others train."""
    environment = host.environment
    data = environment.document.data
    if data is None or not environment.cluster.data_hosts:
        return
    if environment.cluster.group.role not in (Role.DATA, Role.TRAIN):
        return
    versions = find_versions(environment.paths.code, data.datasets)
    emit("host_versions", versions=versions)
    host.coordination.report_versions(versions)


def find_versions(code: Path, datasets: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python, numpy, torch and what the modules of the datasets import."""
    modules = {reference.partition(":")[0] for reference in datasets}
    names = {name for module in modules for name in _imported_names(code, module)}
    packages = {package for name in names for package in _packages_of(name)}
    found = {package: _version(package) for package in sorted({*_ALWAYS, *packages})}
    return {
        "python": platform.python_version(),
        **{package: version for package, version in found.items() if version is not None},
    }


def _imported_names(code: Path, module: str) -> Iterator[str]:
    """Yield the top-level packages that a module of the bundle imports, without importing it."""
    stem = code / module.replace(".", "/")
    file = next(
        (path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None
    )
    if file is None:
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # the import fails, and reports where
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _packages_of(name: str) -> list[str]:
    """Return the distributions that provide an import name; none for the standard library's."""
    if name in sys.stdlib_module_names or name == "launcher":
        return []
    if _version(name) is not None:
        return [name]
    return metadata.packages_distributions().get(name, [])


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

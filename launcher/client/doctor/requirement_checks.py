"""Checks of requirements files: what they would install, as far as no index is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.doctor.package_checks import installed_version
from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec, RequirementsFile, requirements_of
from launcher.errors import SpecError
from launcher.shared import SETUP_FILE

if TYPE_CHECKING:
    from packaging.requirements import Requirement

#: Returns the version of a package by its canonical name; None without it.
FindVersion = Callable[[str], str | None]


@dataclass(frozen=True, kw_only=True)
class GroupRequirements:
    """One requirements file and the groups that install it."""

    file: RequirementsFile
    groups: tuple[str, ...]

    @property
    def where(self) -> str:
        """The file, and the groups that have it."""
        return f"{self.file.path} (group {', '.join(self.groups)})"


def check(spec: JobSpec, *, runs_image: bool) -> Iterator[CheckResult]:
    """Report what would be installed; elsewhere, an image may have some of it already."""
    for found in _files(spec):
        what = _on_every_host(found) if runs_image else _on_this_machine(found)
        yield CheckSection.JOB.finding(found.file.path, Level.OK, what)


def check_image(spec: JobSpec, find: FindVersion) -> Iterator[CheckResult]:
    """Report what would be installed in an image; find: a package's version there."""
    for found in _files(spec):
        wanted = [*_unsatisfied(found.file, find), *found.file.unnamed]
        what = f"for {_groups(found)}: the image has all that it lists"
        if wanted:
            what = f"for {_groups(found)}, on each host, which the image lacks: {', '.join(wanted)}"
        yield CheckSection.JOB.finding(f"image {found.file.path}", Level.OK, what)


def required_names(spec: JobSpec) -> Iterator[str]:
    """Yield the names of the packages that the job's requirements list."""
    for found in _files(spec):
        for requirement in found.file.requirements():
            yield canonicalize_name(requirement.name)


def missing_requirements(spec: JobSpec, python: str | None = None) -> Iterator[str]:
    """Yield a warning for each requirement that an interpreter, or the running one, lacks."""
    for found in _files(spec):
        for why in _unsatisfied(found.file, partial(installed_version, python=python)).values():
            yield f"{found.where} is not installed, as you asked: {why}"
        if found.file.has_setup:
            groups = ", ".join(found.groups)
            why = "only modules in source_dir, and in src there, are found"
            yield f"{SETUP_FILE} (group {groups}) is not installed, as you asked: {why}"


def _files(spec: JobSpec) -> list[GroupRequirements]:
    try:
        by_group = requirements_of(spec, SourceTree(spec))
    except SpecError:  # reported by the checks of the job file
        return []
    groups: dict[str, list[str]] = {}
    files: dict[str, RequirementsFile] = {}
    for group, file in by_group.items():
        if file is not None:
            files[file.path] = file
            groups.setdefault(file.path, []).append(group)
    return [
        GroupRequirements(file=file, groups=tuple(groups[path])) for path, file in files.items()
    ]


def _on_every_host(found: GroupRequirements) -> str:
    lines = ", ".join(map(_shown, found.file.lines)) or "nothing"
    return f"installed on each host of {_groups(found)} before the script starts: {lines}"


def _on_this_machine(found: GroupRequirements) -> str:
    wanted = [*_unsatisfied(found.file, installed_version), *found.file.unnamed]
    if not wanted:
        return f"for {_groups(found)}: this Python has all that it lists"
    names = ", ".join(map(_shown, wanted))
    return f"for {_groups(found)}, in a folder of their own: {names}, and what they need"


def _shown(line: str) -> str:
    return "the source as a package" if line == "." else line


def _groups(found: GroupRequirements) -> str:
    return f"group{'s' if len(found.groups) > 1 else ''} {', '.join(found.groups)}"


def _unsatisfied(file: RequirementsFile, find: FindVersion) -> dict[str, str]:
    """Return why each requirement is not satisfied, by the requirement as text."""
    reasons = {}
    for requirement in file.requirements():
        if why := _why_not(requirement, find):
            reasons[str(requirement)] = why
    return reasons


def _why_not(requirement: Requirement, find: FindVersion) -> str | None:
    text = str(requirement)
    installed = find(canonicalize_name(requirement.name))
    if installed is None:
        return f"{text} is not installed"
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    return f"{text} is not satisfied: {installed} is installed"

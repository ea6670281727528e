"""Rules for requirements files: they exist, something installs them, and pip can reach them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.requirements_file import RequirementsFile, read_requirements
from launcher.client.spec.rules.source_rules import SourceFiles
from launcher.errors import FieldPath, Problem
from launcher.shared import INSTALL_TIMEOUT_VARIABLE, REQUIREMENTS_FILE, install_timeout

if TYPE_CHECKING:
    from launcher.client.spec.groups import InstanceGroup
    from launcher.client.spec.job_spec import JobSpec


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find requirements of groups that nothing would install, and a time limit that is none."""
    try:
        install_timeout(spec.environment)
    except ValueError as error:
        fix = f'write seconds, such as {INSTALL_TIMEOUT_VARIABLE}: "3600"'
        yield Problem(path=("environment", INSTALL_TIMEOUT_VARIABLE), what=str(error), fix=fix)
    for path, group in _groups_with_requirements(spec):
        here = (*path, "requirements")
        if (
            not str(group.requirements).strip()
            or PurePosixPath(str(group.requirements)).is_absolute()
        ):
            what = f'requirements "{group.requirements}" is not a path in source_dir'
            yield Problem(path=here, what=what, fix="write the file's path relative to source_dir")
        elif spec.starts_toolkit:
            name = f'group "{group.instance_group_name}"'
            what = f"{name} has requirements of its own, but Launcher does not start its hosts"
            fix = f"remove it: AWS's toolkit installs {REQUIREMENTS_FILE} on every host"
            yield Problem(path=here, what=what, fix=fix)


def find_problems_in(
    spec: JobSpec, files: SourceFiles, *, known: Iterable[Problem]
) -> Iterator[Problem]:
    """Find missing files, and files that pip cannot install without a network."""
    wrong = {problem.path for problem in known if not problem.is_warning}
    if wrong & {("entry_point",), ("source_dir",)}:
        return
    for path, group in _groups_with_requirements(spec):
        here = (*path, "requirements")
        if not wrong & {here, path} and not files.exists(str(group.requirements)):
            what = f'there is no file "{group.requirements}" in source_dir, or it is ignored'
            fix = "check the name, .gitignore and .launcherignore"
            if spec.source_dir is None:
                fix = 'write "source_dir: ."; without it only the training script travels'
            yield Problem(path=here, about=(("source_dir",),), what=what, fix=fix)
    if spec.enable_network_isolation and not spec.has_remote_source:
        yield from _isolation_problems(spec, files)


def requirements_of(spec: JobSpec, files: SourceFiles) -> dict[str, RequirementsFile | None]:
    """Return what each group installs, by the group's name; None for a group without."""
    if not (spec.entry_point or spec.task):
        return {}

    def read(path: str) -> str | None:
        return files.read_text(path) if files.exists(path) else None

    return {
        group.instance_group_name: read_requirements(group.requirements or REQUIREMENTS_FILE, read)
        for group in spec.groups
    }


def _isolation_problems(spec: JobSpec, files: SourceFiles) -> Iterator[Problem]:
    needing = {
        found.path
        for found in requirements_of(spec, files).values()
        if found is not None and found.needs_network
    }
    if {"PIP_NO_INDEX", "PIP_FIND_LINKS"} <= spec.environment.keys():
        return
    for file in sorted(needing):
        what = f"{file} cannot be installed: with network isolation, hosts reach no package index"
        fix = (
            'put wheels in source_dir and begin the file with "--no-index" and '
            '"--find-links wheels"; or use an image that has the packages'
        )
        yield Problem(path=("enable_network_isolation",), what=what, fix=fix)


def _groups_with_requirements(spec: JobSpec) -> Iterator[tuple[FieldPath, InstanceGroup]]:
    return (
        (path, group) for path, group in groups_with_paths(spec) if group.requirements is not None
    )

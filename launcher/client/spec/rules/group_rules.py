"""Rules for a group's command and requirements file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.job_parts import InstanceGroup
from launcher.client.spec.requirements_file import RequirementsFile, read_requirements
from launcher.client.spec.roles import job_roles
from launcher.client.spec.rules.source_rules import SourceFiles, needs_script
from launcher.errors import FieldPath, Problem
from launcher.shared import (
    INSTALL_TIMEOUT_VARIABLE,
    PYTHON_WORDS,
    REQUIREMENTS_FILE,
    Ready,
    Role,
    install_timeout,
)

if TYPE_CHECKING:
    from launcher.client.spec.job_parts import InstanceGroup
    from launcher.client.spec.job_spec import JobSpec


#: Python options without a value, which may precede the script.
_PLAIN_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]+")
_LAST_PORT = 65535
#: Fields of a group that only Launcher reads.
_OF_LAUNCHER = ("role", "command", "ready", "lifetime", "requirements", "pass_hyperparameters")


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the commands that do not depend on the files."""
    if not spec.runs_script and not needs_script(spec):
        yield from _problems_without_launcher(spec)
        return
    roles, _ = job_roles(spec)
    for path, group in groups_with_paths(spec):
        yield from _role_problems(group, path, roles.get(group.instance_group_name))
        if group.command and not group.command[0].strip():
            what = f'the command of group "{group.instance_group_name}" starts with an empty word'
            yield Problem(path=(*path, "command", 0), what=what, fix="name a program there")
        if group.ready is not None:
            yield from _ready_problems(group.ready, (*path, "ready"))


def find_problems_in(
    spec: JobSpec, files: SourceFiles, *, known: Iterable[Problem]
) -> Iterator[Problem]:
    """Find programs missing from the files; skip those whose fields are `known` to be wrong."""
    wrong = {problem.path for problem in known if not problem.is_warning}
    for path, group in groups_with_paths(spec):
        here = (*path, "command")
        found = _own_file(group.command)
        if found is None or wrong & {here, path, ("entry_point",)}:
            continue
        place, file = found
        if not files.exists(file):
            yield Problem(
                path=(*here, place),
                about=(("source_dir",),),
                what=f'there is no file "{file}" in source_dir, or it is ignored',
                fix=_where_it_may_be(spec, files, file),
            )


def _problems_without_launcher(spec: JobSpec) -> Iterator[Problem]:
    """Find fields of groups in a job whose hosts all run the program of the image."""
    for index, group in enumerate(spec.instance_groups):
        for field in _OF_LAUNCHER:
            if getattr(group, field):
                what = (
                    f'group "{group.instance_group_name}" has {field}, but without a script '
                    "Launcher does not start: its hosts run the program of the image"
                )
                fix = f"remove {field}, or write entry_point"
                path = ("instance_groups", index, field)
                yield Problem(path=path, about=(("entry_point",),), what=what, fix=fix)


def _role_problems(group: InstanceGroup, path: FieldPath, role: Role | None) -> Iterator[Problem]:
    name = f'group "{group.instance_group_name}"'
    if group.role is Role.COMMAND and not group.command:
        what = f"{name} has role command, but no command"
        fix = 'write what its hosts run: command: ["python", "server.py"]'
        yield Problem(path=(*path, "role"), what=what, fix=fix)
    elif group.command and group.role not in (None, Role.COMMAND):
        what = f'{name} has a command, and role "{group.role.value}"'
        yield Problem(path=(*path, "role"), what=what, fix="remove the role, or the command")
    elif not group.command and role is not Role.SCRIPT:
        for field in ("ready", "lifetime"):
            if getattr(group, field) is not None:
                what = f"{name} has {field}, but no command"
                yield Problem(path=(*path, field), what=what, fix=f"remove {field}, or add command")
    if not group.command and group.pass_hyperparameters:
        what = f"{name} has pass_hyperparameters, but no command"
        fix = "remove it: the script gets the hyperparameters anyway"
        yield Problem(path=(*path, "pass_hyperparameters"), what=what, fix=fix)


def _ready_problems(ready: Ready, path: FieldPath) -> Iterator[Problem]:
    given = [sign for sign in ("port", "file", "seconds") if getattr(ready, sign) is not None]
    if len(given) != 1:
        what = f"{' and '.join(given) or 'none of port, file and seconds'} given as the sign"
        yield Problem(path=path, what=what, fix="give one of port, file and seconds")
    if ready.port is not None and not 1 <= ready.port <= _LAST_PORT:
        fix = f"use 1 to {_LAST_PORT}"
        yield Problem(path=(*path, "port"), what=f"port is {ready.port}", fix=fix)
    if ready.file is not None and not ready.file.strip():
        yield Problem(path=(*path, "file"), what="file is empty", fix="name the file")
    if ready.seconds is not None and ready.seconds < 0:
        yield Problem(
            path=(*path, "seconds"), what=f"seconds is {ready.seconds}", fix="use 0 or more"
        )
    if ready.timeout < 1:
        yield Problem(
            path=(*path, "timeout"), what=f"timeout is {ready.timeout}", fix="use 1 or more"
        )
    elif ready.seconds is not None and ready.seconds >= ready.timeout:
        what = f"ready after {ready.seconds} seconds, but given up after {ready.timeout}"
        yield Problem(path=(*path, "timeout"), what=what, fix="use a longer timeout")


def _own_file(command: Sequence[str]) -> tuple[int, str] | None:
    """Return the user's file that a command runs, with its index in the command, or None."""
    place = 0
    if command and command[0] in PYTHON_WORDS:
        place = 1
        while place < len(command) and _PLAIN_OPTION.fullmatch(command[place]):
            place += 1
        if place == len(command) or not command[place].endswith(".py"):
            return None
    elif not command or "/" not in command[0]:
        return None
    file = PurePosixPath(command[place])
    return None if file.is_absolute() else (place, str(file))


def _where_it_may_be(spec: JobSpec, files: SourceFiles, file: str) -> str:
    if spec.source_dir is None:
        return 'write "source_dir: ."; without it only the training script travels'
    name = PurePosixPath(file).name
    if name != file and files.exists(name):
        return f'did you mean "{name}"? paths count from source_dir'
    return "check the name, .gitignore and .launcherignore"


def requirement_problems(spec: JobSpec) -> Iterator[Problem]:
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


def requirement_problems_in(
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

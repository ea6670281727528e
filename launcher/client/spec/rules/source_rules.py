"""Rules for the code: the training script or task, and the dataset functions.

User code is parsed, never imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from launcher.errors import FieldPath, Problem
from launcher.shared import JOB_WORLD, PACKAGE, choice_fix, did_you_mean

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec
    from launcher.shared import PartitionFile


_ENTRY_POINT, _TASK, _SOURCE = ("entry_point",), ("task",), ("source_dir",)
_DATASETS = ("data_service", "datasets")
#: A file that only this package has: the source is a copy of it.
_OURS = "shared/users_modules.py"
_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


class SourceFiles(Protocol):
    """The files that are sent with a job, by path below a host's code folder."""

    def exists(self, path: str) -> bool:
        """Return whether a file has that path."""

    @property
    def paths(self) -> Iterable[str]:
        """The paths of some files, for the fix of a wrong name."""

    def read_text(self, path: str) -> str:
        """Return the text of a file; only called for a path that exists."""

    @property
    def partition(self) -> PartitionFile | None:
        """The content of the job's partition_file, if it has one. Raises ParallelError."""


def find_problems_of_names(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the names of scripts and functions that do not depend on the files."""
    yield from _remote_source_problems(spec)
    yield from _entry_point_problems(spec)
    if spec.task is not None:
        yield from _reference_problems(spec.task, _TASK)
        yield from _problems_beside_task(spec, spec.task)
    for index, reference in enumerate(_references(spec)):
        path = (*_DATASETS, index)
        yield from _reference_problems(reference, path)
        if reference in _references(spec)[:index]:
            yield Problem(path=path, what=f'"{reference}" is listed twice', fix="keep one of them")


def find_problems_in(
    spec: JobSpec, files: SourceFiles, *, known: Iterable[Problem]
) -> Iterator[Problem]:
    """Find problems with the files, skipping names that are `known` to be wrong."""
    if spec.has_remote_source:
        return
    wrong = {problem.path for problem in known if not problem.is_warning}
    if _ENTRY_POINT not in wrong and spec.entry_point:
        yield from _script_problems(spec, files)
    if spec.task is not None and not wrong & {_TASK, _ENTRY_POINT}:
        yield from _function_problems(spec, files, spec.task, _TASK)
    for index, reference in enumerate(_references(spec)):
        if not wrong & {(*_DATASETS, index), _DATASETS, ("data_service",), _ENTRY_POINT}:
            yield from _function_problems(spec, files, reference, (*_DATASETS, index))
    if spec.starts_launcher and not wrong & {_ENTRY_POINT, _SOURCE}:
        yield from _hidden_module_problems(spec, files)


def _remote_source_problems(spec: JobSpec) -> Iterator[Problem]:
    """Check an archive in S3: its name, and that nothing is to be packed beside it."""
    path = ("source_dir",)
    if not spec.has_remote_source:
        return
    if not str(spec.source_dir).endswith(".tar.gz"):
        what = f'source_dir "{spec.source_dir}" is in S3, and is not an archive'
        fix = "name a tar.gz of the folder: s3://BUCKET/PREFIX/sourcedir.tar.gz"
        yield Problem(path=path, what=what, fix=fix)
    if spec.dependencies:
        what = "dependencies are given beside a source_dir in S3, to which nothing is added"
        fix = "pack them into the archive, or give the folder itself as source_dir"
        yield Problem(path=("dependencies",), about=(path,), what=what, fix=fix)


def _reference_problems(reference: str, path: FieldPath) -> Iterator[Problem]:
    if not _REFERENCE.fullmatch(reference):
        what = f'"{reference}" does not name a function of a module'
        yield Problem(path=path, what=what, fix='write "module:function"')


def _problems_beside_task(spec: JobSpec, task: str) -> Iterator[Problem]:
    if spec.entry_point:
        what = f'task "{task}" is given beside entry_point "{spec.entry_point}"'
        fix = "remove one of them: a task is run by Launcher's own trainer, in place of a script"
        yield Problem(path=_TASK, about=(_ENTRY_POINT,), what=what, fix=fix)
    if spec.distribution is None or not spec.distribution.runs_tasks:
        given = spec.distribution.title() if spec.distribution else "none"
        what = f'the trainer of task "{task}" runs under torchrun, and distribution is {given}'
        fix = "write distribution: data_parallel, or model_parallel"
        yield Problem(path=("distribution",), about=(_TASK,), what=what, fix=fix)


def _references(spec: JobSpec) -> Sequence[str]:
    return spec.data_service.datasets if spec.data_service else ()


def _entry_point_problems(spec: JobSpec) -> Iterator[Problem]:
    script = PurePosixPath(spec.entry_point)
    if not spec.entry_point:
        if needs_script(spec) and not spec.is_serverless:
            fix = 'write "entry_point: ..."'
            if spec.distribution is not None and spec.distribution.runs_tasks:
                fix += ', or "task: module:function"'
            yield Problem(path=_ENTRY_POINT, what='"entry_point" is missing', fix=fix)
    elif script.suffix == ".sh" and spec.distribution is not None and spec.starts_launcher:
        what = f'entry_point "{spec.entry_point}" is a shell script beside a distribution'
        fix = "remove the distribution and start it in the script, or name a script in Python"
        yield Problem(path=_ENTRY_POINT, about=(("distribution",),), what=what, fix=fix)
    elif script.suffix not in (".py", ".sh"):
        what = f'entry_point "{spec.entry_point}" is not a Python file'
        yield Problem(path=_ENTRY_POINT, what=what, fix="name a script that ends in .py")
    elif spec.source_dir is not None and _leaves_its_folder(script):
        what = f'entry_point "{spec.entry_point}" is outside source_dir "{spec.source_dir}"'
        fix = "write the script's path relative to source_dir"
        yield Problem(path=_ENTRY_POINT, about=(("source_dir",),), what=what, fix=fix)


def needs_script(spec: JobSpec) -> bool:
    """Return whether a job has no other program, or uses fields that only Launcher supports."""
    if spec.task is not None:
        return False
    own_program = spec.image_uri or spec.algorithm_arn or spec.container_entry_point
    only_ours = spec.source_dir or spec.dependencies or spec.distribution or spec.data_service
    return not own_program or bool(only_ours)


def _leaves_its_folder(path: PurePosixPath) -> bool:
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return path.is_absolute()


def _script_problems(spec: JobSpec, files: SourceFiles) -> Iterator[Problem]:
    if not files.exists(spec.script):
        place = f'source_dir "{spec.source_dir}"' if spec.source_dir else "that place"
        yield Problem(
            path=_ENTRY_POINT,
            what=f'there is no file "{spec.entry_point}" in {place}, or it is ignored',
            fix=_fix_of_name(spec.script, files.paths),
        )
        return
    parsed = _parse(files.read_text(spec.script)) if spec.script.endswith(".py") else None
    if isinstance(parsed, SyntaxError):
        yield Problem(
            path=_ENTRY_POINT,
            what=f"{spec.script}, line {parsed.lineno}, is not valid Python here: {parsed.msg}",
            fix="correct it, unless the job's image has a newer Python than this machine",
            is_warning=True,
        )


def _fix_of_name(script: str, sent: Iterable[str]) -> str:
    suffix = PurePosixPath(script).suffix
    near = did_you_mean(script, (path for path in sent if path.endswith(suffix)))
    return f'did you mean "{near}"?' if near else "check the name, .gitignore and .launcherignore"


def _hidden_module_problems(spec: JobSpec, files: SourceFiles) -> Iterator[Problem]:
    """Find submodules of the user's own package `launcher` that ours has too, and so hides."""
    folders = dict.fromkeys((".", "src", str(PurePosixPath(spec.script).parent)))
    names = [PurePosixPath(part).stem for part in JOB_WORLD if part != "__init__.py"]
    for folder in (str(PurePosixPath(each, PACKAGE)) for each in folders):
        for name in names:
            file = _module_file(f"{folder}/{name}", files)
            if file is not None and not files.exists(f"{folder}/{_OURS}"):
                yield Problem(
                    path=_SOURCE if spec.source_dir else _ENTRY_POINT,
                    what=f'{file} is hidden on hosts: there, "{PACKAGE}.{name}" is a module of '
                    "this package",
                    fix=f"rename the module, or its folder {PACKAGE}/",
                )


def _function_problems(
    spec: JobSpec, files: SourceFiles, reference: str, path: FieldPath
) -> Iterator[Problem]:
    module, _, function = reference.partition(":")
    file = _module_file(module.replace(".", "/"), files)
    if file is None:
        fix = f"write {module.replace('.', '/')}.py into source_dir, or correct the module's name"
        if spec.source_dir is None:
            fix = 'write "source_dir: ."; without it, no modules are sent'
        what = f'"{reference}": there is no module "{module}" in source_dir, or it is ignored'
        yield Problem(path=path, about=(("source_dir",),), what=what, fix=fix)
        return
    parsed = _parse(files.read_text(file))
    if isinstance(parsed, SyntaxError):
        what = f'"{reference}": {file}, line {parsed.lineno}, is not valid Python: {parsed.msg}'
        yield Problem(path=path, what=what, fix=f"correct {file}")
        return
    names = set(defined_names(parsed))
    if function not in names and "*" not in names:
        fix = choice_fix(function, sorted(names)) if names else f"define it: def {function}(): ..."
        yield Problem(path=path, what=f'"{reference}": {file} defines no "{function}"', fix=fix)


def _module_file(stem: str, files: SourceFiles) -> str | None:
    return next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if files.exists(p)), None)


def _parse(text: str) -> ast.Module | SyntaxError:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        return error
    except ValueError as error:  # null bytes, before Python 3.12
        return SyntaxError(str(error))


def defined_names(module: ast.Module) -> Iterator[str]:
    """Yield the names that a module may bind in its own scope, "*" for unknown ones.

    >>> sorted(defined_names(ast.parse("import a.b; c = d; from e import *")))
    ['*', 'a', 'c']
    """
    left: list[ast.AST] = [module]
    while left:
        node = left.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield "*" if node.name == "__getattr__" else node.name
                continue
            case ast.comprehension():  # its variable is its own
                left += node.iter, *node.ifs
                continue
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Call(func=ast.Name(id="globals" | "vars" | "exec" | "setattr")):
                yield "*"
        left += ast.iter_child_nodes(node)

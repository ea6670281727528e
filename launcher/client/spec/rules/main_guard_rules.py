"""Rules for scripts whose own datasets data hosts import: importing one must not train."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.spec.roles import job_roles
from launcher.client.spec.rules.source_rules import SourceFiles
from launcher.errors import Problem
from launcher.shared import Role, has_main_guard

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

#: The loader's arguments that name code, of which the first may be given by position.
_ARGUMENTS = ("dataset", "sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_LOADER = "DataLoader"


def find_problems_in(
    spec: JobSpec, files: SourceFiles, *, known: Iterable[Problem]
) -> Iterator[Problem]:
    """Find code of the training script that data workers would import, if it has no main guard."""
    wrong = {problem.path for problem in known if not problem.is_warning}
    if wrong & {("entry_point",), ("source_dir",)} or not _has_data_workers(spec):
        return
    if not spec.script.endswith(".py") or not files.exists(spec.script):
        return
    source = files.read_text(spec.script)
    if not has_main_guard(source):
        yield from map(_problem, _uses(spec, ast.parse(source)))


def _has_data_workers(spec: JobSpec) -> bool:
    if spec.data_service is None or not spec.entry_point or spec.has_remote_source:
        return False
    roles, _ = job_roles(spec)
    return spec.data_service.local_workers > 0 or Role.DATA in roles.values()


def _problem(use: tuple[str, str]) -> Problem:
    where, name = use
    return Problem(
        path=("entry_point",),
        what=f"{where} names {name} of the training script, which has no main guard: data hosts "
        "would train when they import it",
        fix='put what the script does under `if __name__ == "__main__":` at its end, or move '
        f"{name} into a module of its own",
    )


def _uses(spec: JobSpec, script: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (where, name) of each function and class of the script that the data service reads."""
    path = PurePosixPath(spec.script).with_suffix("")
    modules = {".".join(path.parts), path.name}  # modules beside the script have their name alone
    assert spec.data_service is not None  # where there are data workers
    for reference in spec.data_service.datasets:
        if reference.partition(":")[0] in modules:
            yield "data_service.datasets", reference.partition(":")[2]
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    own = {each.name for each in script.body if isinstance(each, definitions)}
    for call in _loader_calls(script):
        for given in _given(call):
            if (name := _name(given, modules)) in own:
                yield f"{spec.script}, line {call.lineno},", name


def _loader_calls(script: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls of Launcher's loader, by the names under which the script imports it."""
    names = set(_loader_names(script))
    for node in ast.walk(script):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def _loader_names(script: ast.Module) -> Iterator[str]:
    for node in ast.walk(script):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                match node.module, alias.name:
                    case "launcher.data", "DataLoader":
                        yield alias.asname or alias.name
                    case "launcher", "data":
                        yield f"{alias.asname or alias.name}.{_LOADER}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "launcher.data":
                    yield f"{alias.asname or alias.name}.{_LOADER}"


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args[:1]
    yield from (each.value for each in call.keywords if each.arg in _ARGUMENTS)


def _name(given: ast.expr, modules: Collection[str]) -> str:
    """Return the name in the script that an argument refers to, "" for other arguments."""
    match given:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=str(reference)) if reference.partition(":")[0] in modules:
            return reference.partition(":")[2].partition("(")[0]
    return ""

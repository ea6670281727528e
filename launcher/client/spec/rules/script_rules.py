"""Rules for the training script: peers, arguments, and a main guard where data hosts import it.

SageMaker passes hyperparameters as `--name value`, also true and null; the script is parsed, never
imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.roles import job_roles
from launcher.client.spec.rules.source_rules import SourceFiles
from launcher.errors import FieldPath, Problem
from launcher.shared import Role, has_main_guard

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


#: Words of scripts that find their peers themselves.
_OWN_PEERS = re.compile(
    r"SM_HOSTS|SM_CURRENT_HOST|resourceconfig|LAUNCHER_HOST|TF_CONFIG|MultiWorkerMirroredStrategy|"
    r"\bjax\.distributed\b|\bfrom jax import distributed|\bhorovod\b|\bmpi4py\b|\bray\.init\b|"
    r"\bdeepspeed\b|\binit_method\s*="
)
#: Actions of argparse's options that take no value.
_FLAGS = ("store_true", "store_false", "store_const", "append_const", "count")


def find_problems_in(
    spec: JobSpec, files: SourceFiles, *, known: Iterable[Problem]
) -> Iterator[Problem]:
    """Find hosts that train apart, and hyperparameters that the script's parser would not take."""
    text = _script_text(spec, files, known)
    yield from _host_problems(spec, text or "")
    yield from _null_problems(spec)
    options = _options(text) if text and spec.script.endswith(".py") else {}
    for name, value in spec.hyperparameters.items() if options else ():
        yield from _argument_problems(spec.script, name, value, options)


def _script_text(spec: JobSpec, files: SourceFiles, known: Iterable[Problem]) -> str | None:
    wrong = {problem.path for problem in known if not problem.is_warning}
    is_known = spec.entry_point and not spec.has_remote_source
    if not is_known or wrong & {("entry_point",), ("source_dir",)}:
        return None
    return files.read_text(spec.script) if files.exists(spec.script) else None


def _host_problems(spec: JobSpec, text: str) -> Iterator[Problem]:
    """Find several train hosts whose script neither has a distribution nor looks for its peers."""
    roles, _ = job_roles(spec)
    trainers = [
        (path, group)
        for path, group in groups_with_paths(spec)
        if roles.get(group.instance_group_name) is Role.TRAIN
    ]
    for path, group in trainers[:1]:
        count = group.instance_count
        if spec.distribution is None and count > 1 and not _OWN_PEERS.search(text):
            yield Problem(
                path=(*path, "instance_count"),
                about=(("distribution",),),
                what=f"{count} train hosts, but no distribution: each runs the script on its own",
                fix='write "distribution: data_parallel" to train as one',
                is_warning=True,
            )


def _null_problems(spec: JobSpec) -> Iterator[Problem]:
    for name, value in spec.hyperparameters.items():
        if value is None:
            what = f'the hyperparameter "{name}" is null, which the script gets as an empty text'
            yield _warning(name, what, "leave it out: then the script's own default holds")


def _options(text: str) -> dict[str, ast.Call]:
    """Return the calls of argparse's add_argument by each option that they name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # running it says what is wrong
        return {}
    if "argparse" not in text:
        return {}
    return {
        word.value: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        for word in node.args
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }


def _argument_problems(
    script: str, name: str, value: object, options: Mapping[str, ast.Call]
) -> Iterator[Problem]:
    option = f"-{name}" if len(name) == 1 else f"--{name}"
    call = options.get(option)
    if call is None:
        if len(name) == 1 and (long := options.get(f"--{name}")):
            what = f'the hyperparameter "{name}" is passed as -{name}, as its name has one letter'
            fix = f'write add_argument("-{name}", "--{name}", ...)'
            yield _warning(name, f"{what}; {script}, line {long.lineno}, takes --{name}", fix)
        return
    given = {each.arg: each.value for each in call.keywords}
    where = f"{script}, line {call.lineno},"
    if _takes_no_value(given.get("action")):
        what = f'the hyperparameter "{name}" is passed as {option} {value}, but {where} takes no'
        fix = f"write add_argument(\"{option}\", type=lambda text: text == 'True')"
        yield _warning(name, f"{what} value", fix)
    elif value is False and isinstance(kind := given.get("type"), ast.Name) and kind.id == "bool":
        what = f'the hyperparameter "{name}" is passed as {option} False, which {where} reads as'
        fix = "write type=lambda text: text == 'True' in place of type=bool"
        yield _warning(name, f"{what} true: bool of any text is", fix)


def _takes_no_value(action: ast.expr | None) -> bool:
    if isinstance(action, ast.Constant):
        return action.value in _FLAGS
    return action is not None and ast.unparse(action).endswith("BooleanOptionalAction")


def _warning(name: str, what: str, fix: str) -> Problem:
    path: FieldPath = ("hyperparameters", name)
    return Problem(path=path, what=what, fix=fix, is_warning=True)


#: The loader's arguments that name code, of which the first may be given by position.
_ARGUMENTS = ("dataset", "sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_LOADER = "DataLoader"


def guard_problems_in(
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

"""The packages that a job's script imports, found by reading it and its modules: nothing is run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec
from launcher.errors import SpecError

#: Packages that come with the job.
_OURS = frozenset({"launcher", "hetero_launcher"})


def imported_modules(spec: JobSpec) -> dict[str, str]:
    """Return the first file and line that needs each package of others, by the package's name.

    Imports in functions and in `try` and `if` are left out: a script may do without them.
    """
    try:
        files = SourceTree(spec)
        own = {file.path for file in files.files if file.path.endswith(".py")}
    except SpecError:  # reported by the checks of the job file
        return {}
    found: dict[str, str] = {}
    waiting, seen = _first_files(spec, own), set[str]()
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        for module, line in _imports(files.read_text(path)):
            if inside := _own_files(module, own):
                waiting += inside
            elif (top := module.partition(".")[0]) not in sys.stdlib_module_names | _OURS:
                found.setdefault(top, f"{path}, line {line},")
    return found


def _first_files(spec: JobSpec, own: set[str]) -> list[str]:
    modules = [each.partition(":")[0] for each in _references(spec)]
    files = [file for module in modules for file in _own_files(module, own)]
    return [each for each in [spec.script if spec.entry_point else "", *files] if each in own]


def _references(spec: JobSpec) -> list[str]:
    datasets = spec.data_service.datasets if spec.data_service else ()
    return [*datasets, *([spec.task] if spec.task else [])]


def _own_files(module: str, own: set[str]) -> list[str]:
    """Return the files of the source that importing a module runs; none for others' packages."""
    parts = module.split(".")
    names = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    places = [f"{root}{name}{end}" for root in ("", "src/") for name in names for end in _ENDS]
    return [place for place in places if place in own]


_ENDS = (".py", "/__init__.py")


def _imports(source: str) -> Iterator[tuple[str, int]]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # the checks of the job file say so
        return
    for node in body:
        match node:
            case ast.Import(names=names):
                yield from ((each.name, node.lineno) for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((f"{module}.{each.name}", node.lineno) for each in names)

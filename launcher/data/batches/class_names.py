"""Names of the user's classes on the wire, and the classes of this process that bear them.

A name is "module:Class". The running script is named as its file is imported elsewhere, so that a
class of the script has one name on all hosts.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import FunctionType, ModuleType

from launcher.runtime import paths_here


def reference_to(code: type | FunctionType) -> str:
    """Return the name of a function or class; those of the script are in its file's module.

    >>> reference_to(functools.partial)
    'functools:partial'
    """
    module = code.__module__
    return f"{(script_module() or module) if module == '__main__' else module}:{code.__qualname__}"


def find_class(name: str) -> type | None:
    """Return the class of that name if the user's own code has it in a module that is loaded.

    Nothing is imported, no attribute of an object is computed, and what a module only imports from
    elsewhere is not found.
    """
    module, _, path = name.partition(":")
    script = running_script()
    home = script if module == script_module() else sys.modules.get(module)
    if home is None or not is_own(home):
        return None
    found: object = home
    for part in path.split("."):
        if not isinstance(found, ModuleType | type) or (
            isinstance(found, ModuleType) and found is not home
        ):
            return None
        found = vars(found).get(part)
    return found if isinstance(found, type) and reference_to(found) == name else None


def is_own(home: ModuleType) -> bool:
    """Return whether a module is the user's own: of the job's code, the script, or beside it."""
    if home is running_script():
        return True
    file = getattr(home, "__file__", None)
    return isinstance(file, str) and _is_own_file(file, _script_folder())


@functools.lru_cache(maxsize=1024)
def _is_own_file(file: str, script_folder: str) -> bool:
    path = Path(file).absolute()
    if any(part in ("site-packages", "dist-packages") for part in path.parts):
        return False
    return path.is_relative_to(paths_here().code.absolute()) or path.is_relative_to(script_folder)


def _script_folder() -> str:
    """Return the folder that the script's imports start from; in a notebook, the current one."""
    script = running_script()
    if (file := getattr(script, "__file__", None)) is None:
        return str(Path.cwd())
    levels = str(spec.name).count(".") if (spec := script.__spec__) is not None else 0
    return str(Path(file).absolute().parents[levels])


def running_script() -> ModuleType:
    """Return the module of the program that runs."""
    return sys.modules["__main__"]


def script_module() -> str | None:
    """Return the name under which the running script is imported elsewhere, None without a file."""
    script = running_script()
    if (spec := getattr(script, "__spec__", None)) is not None:
        return str(spec.name)  # python -m
    if (file := getattr(script, "__file__", None)) is None:
        return None
    path, code = Path(file).absolute(), paths_here().code.absolute()
    inside = path.relative_to(code) if path.is_relative_to(code) else Path(path.name)
    return ".".join(inside.with_suffix("").parts)

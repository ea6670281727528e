"""Code that makes a dataset of the script again in another process, with its transforms.

The code is read from the attributes that have the names of constructor arguments, which datasets
and transforms of torch's libraries have. What no attribute shows is named, never guessed.
"""

from __future__ import annotations

import enum
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import FunctionType

from launcher.data.batches import reference_to, script_module
from launcher.data.instance_code import VALUE_LIMIT, channel_path, shown_arguments
from launcher.data.order import ChannelPath, wrong_values
from launcher.shared import has_main_guard


class Hidden(Exception):
    """The code of a value is not known; the text is the argument's name."""


@dataclass(kw_only=True)
class DatasetCode:
    """The code of a function that returns a dataset; `home` is the module that it is written in.

    imports: the module of each name that the code uses. paths: the function's arguments, of paths
    in channels. uncertain: arguments with a default that no attribute shows, which are left out.
    """

    home: str
    imports: dict[str, str] = field(default_factory=dict)
    paths: dict[str, ChannelPath] = field(default_factory=dict)
    uncertain: list[str] = field(default_factory=list)

    def of(self, value: object, name: str = "dataset") -> str:
        """Return the expression of a value; raises Hidden for one that cannot be written.

        name: of the argument that it is.
        """
        if isinstance(value, PurePath):
            self._import("Path", "pathlib", name)
            return f"Path({self.of(str(value), name)})"
        if (path := channel_path(value)) is not None:
            return self._path(path, name)
        if isinstance(value, list | tuple):
            return self._sequence(value, name)
        if not wrong_values(value):
            return _short(repr(value), name)
        if isinstance(value, type | FunctionType):
            return self._named(value, name)
        if isinstance(value, enum.Enum):
            if value.name not in type(value).__members__:  # a combination of flags
                raise Hidden(name)
            return f"{self._named(type(value), name)}.{value.name}"
        if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            self._import("torch", "", name)
            return repr(value)
        return self._call(value, name)

    def import_function(self, reference: str) -> None:
        """Import a function of another module, so that it can be named in this one."""
        module, _, function = reference.partition(":")
        if module == script_module() and not _script_is_importable():
            raise Hidden(function)
        self._import(function.partition(".")[0], module, function)

    def lines(self, function: str, expression: str, *arguments: str) -> str:
        """Return the lines to write into the module."""
        modules: dict[str, list[str]] = {}
        for name, module in sorted(self.imports.items()):
            if module not in (self.home, "builtins"):
                modules.setdefault(module, []).append(name)
        imports = [
            f"from {module} import {', '.join(names)}\n" if module else f"import {names[0]}\n"
            for module, names in sorted(modules.items())
        ]
        body = f"def {function}({', '.join((*arguments, *self.paths))}):\n    return {expression}\n"
        return f"{''.join(imports)}\n{body}" if imports else body

    def _sequence(self, value: list[object] | tuple[object, ...], name: str) -> str:
        if type(value) not in (list, tuple) or len(value) > VALUE_LIMIT:
            raise Hidden(name)
        written = ", ".join(self.of(each, name) for each in value)
        if isinstance(value, list):
            return f"[{written}]"
        return f"({written},)" if len(value) == 1 else f"({written})"

    def _path(self, path: ChannelPath, name: str) -> str:
        if self.paths.setdefault(name, path) != path:
            raise Hidden(name)
        return name

    def _named(self, code: type | FunctionType, name: str) -> str:
        """Return a function's or class's name, to be imported from its most public module."""
        module, _, path = reference_to(code).partition(":")
        top = path.partition(".")[0]
        if "<" in path or not is_importable(code):
            raise Hidden(name)
        if code.__module__ != "__main__":
            if not _has(module, top):
                raise Hidden(name)
            while _has(parent := module.rpartition(".")[0], top) and (
                getattr(sys.modules[parent], top) is getattr(sys.modules[module], top)
            ):
                module = parent
        self._import(top, module, name)
        return path

    def _import(self, top: str, module: str, name: str) -> None:
        if self.imports.setdefault(top, module) != module:
            raise Hidden(name)

    def _call(self, value: object, name: str) -> str:
        kind = self._named(type(value), name)
        if (arguments := shown_arguments(value)) is None:
            raise Hidden(name)
        written = []
        for argument, (found, has_default) in arguments.items():
            if found is not inspect.Parameter.empty:
                written.append(f"{argument}={self.of(found, argument)}")
            elif has_default:
                self.uncertain.append(argument)
            else:
                raise Hidden(argument)
        return f"{kind}({', '.join(written)})"


def is_importable(code: type | FunctionType) -> bool:
    """Return whether data hosts can import what has a name without running the script."""
    return code.__module__ != "__main__" or _script_is_importable()


def file_of(code: type | FunctionType) -> Path | None:
    """Return the file of a class's or function's module; None if it has none."""
    return _module_file(code.__module__)


def _script_is_importable() -> bool:
    file = _module_file("__main__")
    return file is not None and has_main_guard(file.read_text())


def _module_file(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else Path(file)


def _has(module: str, name: str) -> bool:
    return hasattr(sys.modules.get(module), name)


def _short(code: str, name: str) -> str:
    if len(code) > VALUE_LIMIT:
        raise Hidden(name)
    return code

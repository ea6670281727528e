"""The meaning of a module's name that a file of the user's has too: launcher.py, signal.py.

AWS's own examples call an entry point launcher.py, and Python finds the files beside a script
before all others. Each Python that starts on a host runs this first (runtime/python_start), so it
imports nothing that takes time.
"""

from __future__ import annotations

import os
import sys

# From `importlib.machinery`, which imports more than a Python that has just started has imported.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.abc import Loader
    from types import FrameType, ModuleType
else:
    Loader = object  # which a loader need not be one of; its module takes time

#: The package, and the name of its distribution, by which it is found beside a user's launcher.py.
PACKAGE, OTHER_NAME = "launcher", "hetero_launcher"
#: Where the user's own module of our name is kept; no statement can import it.
USERS_PACKAGE = f"{PACKAGE} (user's)"
_LIBRARY = os.path.abspath(os.path.join(__file__, "..", "..", ".."))
_OWN_FOLDER = os.path.join(_LIBRARY, PACKAGE)
_STANDARD = os.path.dirname(os.__file__)
#: One of these makes a folder the root of a project, whose modules may be in src/.
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


class UsersModules:
    """Finds what a name means on a host where a file of the user's has it.

    A name of the standard library means the user's file for the user's own code alone; libraries,
    which never mean that file, get the standard module. `launcher` is our package, for all.

    folders: those of the user's code, on the path.
    """

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self.folders = list(folders)
        self._at_start = frozenset(sys.modules)
        self._aside: dict[str, ModuleType] = {}

    def find_spec(self, name: str, path: object = None, _: object = None) -> ModuleSpec | None:
        """Return the module to import, or None if there is nothing to decide."""
        if name == PACKAGE:
            return self._own_package()
        is_hidden = name in sys.stdlib_module_names and self._has(name)
        return self._standard(name) if is_hidden and not self._is_asked_by_user() else None

    def add(self, folders: Iterable[str]) -> None:
        """Let the user's code import from these folders as in a Python that has just started.

        Standard modules of the same names, which this process has imported, are put aside:
        libraries still get them.
        """
        self.folders += [each for each in folders if each not in self.folders]
        if PACKAGE in sys.modules:
            known = sys.modules[PACKAGE].__path__
            known += [each for each in self._users_packages() if each not in known]
        for name in list(sys.modules):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names and top not in self._at_start and self._has(top):
                self._aside[name] = sys.modules.pop(name)

    def _own_package(self) -> ModuleSpec | None:
        spec = PathFinder.find_spec(PACKAGE, [_LIBRARY])
        if spec is not None and spec.submodule_search_locations is not None:
            spec.submodule_search_locations += self._users_packages()
        return spec

    def _users_packages(self) -> list[str]:
        """Return the user's own packages of our name, which may have submodules."""
        folders = dict.fromkeys((*sys.path[:1], *self.folders))
        packages = (os.path.join(each, PACKAGE) for each in folders)
        return [each for each in packages if os.path.isdir(each) and each != _OWN_FOLDER]

    def _has(self, name: str) -> bool:
        """Return whether a module or package of this name is in one of the user's folders."""
        spec = PathFinder.find_spec(name, self.folders)
        return spec is not None and spec.loader is not None

    def _standard(self, name: str) -> ModuleSpec | None:
        kept = self._aside.pop(name, None)
        if kept is None:
            return PathFinder.find_spec(name, [each for each in sys.path if _is_standard(each)])
        for below in [each for each in self._aside if each.startswith(f"{name}.")]:
            sys.modules[below] = self._aside.pop(below)
        return ModuleSpec(name, LoadedModule(kept))

    def _is_asked_by_user(self) -> bool:
        """Return whether the innermost frame outside the import system is of the user's code."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and _is_of_imports(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        if frame is None:
            return False
        file = frame.f_globals.get("__file__") or ""  # of `python -c` too, which tools use
        return any(os.path.abspath(file).startswith(f"{each}{os.sep}") for each in self.folders)


class OtherName:
    """Finds `hetero_launcher` and what is below it: the very modules of `launcher`."""

    def find_spec(self, name: str, path: object = None, _: object = None) -> ModuleSpec | None:
        """Return the module of our own name, if the other one is asked for."""
        if name.partition(".")[0] != OTHER_NAME:
            return None
        own = PACKAGE + name.removeprefix(OTHER_NAME)
        try:
            __import__(own)
        except ModuleNotFoundError as error:
            if error.name == own:
                return None  # Python reports the name that was asked for
            raise
        return ModuleSpec(name, LoadedModule(sys.modules[own]))


class LoadedModule(Loader):
    """A loader of a module that exists already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _: ModuleSpec) -> ModuleType:
        """Return the module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own specification back."""
        module.__spec__ = self._spec


# A process of a host ----------------------------------------------------------------------------


def install() -> None:
    """Put the user's folders on the path of this process, which has just started on a host."""
    folders = list(source_folders(os.path.join(os.path.dirname(_LIBRARY), "code")))
    place = sys.path.index(_LIBRARY) + 1 if _LIBRARY in sys.path else len(sys.path)
    sys.path[place:place] = folders
    _insert(UsersModules(folders))


def enter(code: str, folder: str) -> None:
    """Make `code` the working folder, and import from `folder` first, as the script there does.

    It replaces what python -m puts first on the path: the folder in which this process began.
    """
    os.chdir(code)
    folders = list(dict.fromkeys((folder, *source_folders(code))))
    sys.path[:1] = [each for each in folders if each == folder or each not in sys.path[1:]]
    sys.path += [each for each in (_LIBRARY,) if each not in sys.path]
    found = [each for each in sys.meta_path if isinstance(each, UsersModules)]
    finder = found[0] if found else _insert(UsersModules())
    finder.add(folders)


def _insert(finder: UsersModules) -> UsersModules:
    """Let a finder decide before the one of files, and after those of other packages."""
    sys.meta_path.insert(0, OtherName())
    sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    return finder


def source_folders(code: str) -> Iterator[str]:
    """Yield the folders with modules of the user's source: its root, and a project's src."""
    yield code
    source = os.path.join(code, "src")
    if os.path.isdir(source) and any(
        os.path.isfile(os.path.join(code, each)) for each in _PROJECT_FILES
    ):
        yield source


# The user's own module of our name --------------------------------------------------------------


def users_attribute(name: str) -> object:
    """Return an attribute of the user's own module `launcher`, which runs at the first use.

    Raises AttributeError if there is none.
    """
    is_ours = PathFinder.find_spec(f"{PACKAGE}.{name}", sys.modules[PACKAGE].__path__) is not None
    module = None if is_ours or name.startswith("__") else _users_module()
    if module is None:
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
    if not hasattr(module, name):
        raise AttributeError(f"neither Launcher nor {module.__file__} has {name!r}")
    return getattr(module, name)


def _users_module() -> ModuleType | None:
    if USERS_PACKAGE in sys.modules:
        return sys.modules[USERS_PACKAGE]
    folders = [each for each in map(os.path.abspath, sys.path) if each != _LIBRARY]
    spec = PathFinder.find_spec(PACKAGE, folders)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        return None
    running = sys.modules.get("__main__")
    if getattr(running, "__file__", None) == spec.origin:
        return running  # the script itself, which must not run again
    module = sys.modules[USERS_PACKAGE] = type(sys)(PACKAGE)
    module.__file__, module.__spec__, module.__loader__ = spec.origin, spec, spec.loader
    module.__package__, module.__path__ = PACKAGE, spec.submodule_search_locations or []
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[USERS_PACKAGE]
        raise
    return module


def _is_standard(folder: str) -> bool:
    return os.path.dirname(folder) == _STANDARD or folder == _STANDARD or folder.endswith(".zip")


def _is_of_imports(name: str) -> bool:
    return name == __name__ or name.partition(".")[0] in ("importlib", "_frozen_importlib")

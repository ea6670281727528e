"""The package `launcher` by the name of its distribution: the very same modules.

For a folder with a launcher.py of the user's own, which Python finds there by the name `launcher`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

_OWN = "launcher"
_FOLDER = Path(__file__).parents[1]


def _package() -> ModuleType:
    """Return our package, in place of a module of the user's, to whose names it leads."""
    found = sys.modules.get(_OWN)
    if found is not None and Path(found.__file__ or "").parents[1:2] == (_FOLDER,):
        return found
    spec = PathFinder.find_spec(_OWN, [str(_FOLDER)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{_FOLDER} has no package {_OWN}: install hetero-launcher again")
    package = sys.modules[_OWN] = module_from_spec(spec)
    spec.loader.exec_module(package)
    names = import_module(f"{_OWN}.shared.users_modules")
    if found is not None:
        sys.modules[names.USERS_PACKAGE] = found
    return package


sys.modules[__name__] = _package()
sys.meta_path.insert(0, import_module(f"{_OWN}.shared.users_modules").OtherName())

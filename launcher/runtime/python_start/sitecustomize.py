"""Run when any Python of a host starts: this folder is first on the PYTHONPATH of its programs.

Python imports it by its name (see the documentation of `site`), before the program's own folder is
on the path. It takes a part of each start, so it imports little.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import PathFinder, SourceFileLoader

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_MODULE = "launcher.shared.users_modules"


def _install() -> None:
    """Run a module of the package by its own name, but without the package."""
    path = os.path.join(_FOLDER, "..", "..", "shared", "users_modules.py")
    module = sys.modules[_MODULE] = type(sys)(_MODULE)
    module.__file__ = os.path.abspath(path)
    SourceFileLoader(_MODULE, module.__file__).exec_module(module)
    module.install()


def _refuse_breakpoints() -> None:
    """Let breakpoint() say that there is no terminal, unless there is one, or another debugger."""
    debugger = os.environ.get("PYTHONBREAKPOINT", "")
    has_user = os.isatty(0) or "LAUNCHER_DEBUG" in os.environ
    if debugger in ("", "pdb.set_trace", "ipdb.set_trace") and not has_user:
        sys.breakpointhook = _refuse_breakpoint


def _refuse_breakpoint(*_: object, **__: object) -> None:
    from launcher.runtime.host.no_terminal import NoTerminal

    raise NoTerminal


def _run_next() -> None:
    """Run the module of this name that Python would have found without this one."""
    spec = PathFinder.find_spec("sitecustomize", [each for each in sys.path if each != _FOLDER])
    if spec is not None and spec.loader is not None:
        module = type(sys)("sitecustomize")
        module.__file__ = spec.origin
        spec.loader.exec_module(module)


_install()
_refuse_breakpoints()
_run_next()

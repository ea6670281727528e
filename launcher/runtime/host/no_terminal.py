"""The words on programs of a host that ask their user something, and get no answer."""

from __future__ import annotations

import os
from bdb import BdbQuit

from launcher.shared import DEBUG_VARIABLE

_FIX = "`launcher run --debug` runs the job's rank 0 in your terminal, under pdb"
_END_OF_INPUT = "EOF when reading a line"


class NoTerminal(RuntimeError):
    """The script called breakpoint() on a host, where nobody can answer."""

    __module__ = "builtins"  # a traceback then shows the name alone

    def __init__(self) -> None:
        super().__init__(f"breakpoint() waits for a user, and a host has no terminal: {_FIX}")


def hint_of_terminal(error: BaseException) -> str:
    """Return the words on an error of a program that asks for input; "" for other errors.

    >>> hint_of_terminal(EOFError("EOF when reading a line"))[:60]
    ' (input() waits for a user, and a host has no terminal: give'
    """
    if isinstance(error, BdbQuit):
        if DEBUG_VARIABLE in os.environ:
            return " (you quit the debugger)"
        return f" (a debugger waits for a user, and a host has no terminal: {_FIX})"
    if isinstance(error, EOFError) and str(error) == _END_OF_INPUT:
        what = f"give the script what it asks for as hyperparameters; {_FIX}"
        return f" (input() waits for a user, and a host has no terminal: {what})"
    return ""

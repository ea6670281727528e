"""The words on programs of a host that ask their user something, and get no answer."""

from __future__ import annotations

from bdb import BdbQuit

_FIX = (
    "run the script yourself in a terminal, where the loader prepares its batches, or set "
    "PYTHONBREAKPOINT=remote_pdb.set_trace in the job's environment, with remote-pdb in its "
    "requirements"
)
_END_OF_INPUT = "EOF when reading a line"


class NoTerminal(RuntimeError):
    """The script called breakpoint() on a host, where nobody can answer."""

    def __init__(self) -> None:
        super().__init__(f"breakpoint() waits for a user, and a host has no terminal: {_FIX}")


def hint_of_terminal(error: BaseException) -> str:
    """Return the words on an error of a program that asks for input; "" for other errors.

    >>> hint_of_terminal(EOFError("EOF when reading a line"))
    ' (a host has no terminal and no input: give the script what it asks for as hyperparameters)'
    """
    if isinstance(error, BdbQuit):
        return f" (a debugger waits for a user, and a host has no terminal: {_FIX})"
    if isinstance(error, EOFError) and str(error) == _END_OF_INPUT:
        what = "give the script what it asks for as hyperparameters"
        return f" (a host has no terminal and no input: {what})"
    return ""

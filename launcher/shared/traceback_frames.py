"""Frames of tracebacks and of faulthandler's dumps, and the user's code among them."""

from __future__ import annotations

import re

#: The first line of a traceback's frame; and a frame of what faulthandler prints.
FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<rest>.*)$')
DUMPED_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
#: The end of the folder where hosts, local ones too, have the user's code.
_CODE = "/ml/code/"
#: What Python draws below a line of code.
_MARKS = " \t^~"


def is_users(file: str) -> bool:
    """Return True for a file of the user's code."""
    return _CODE in file


def in_source(file: str) -> str:
    """Return a file of the user's code as it is called in source_dir, and other files unchanged.

    >>> in_source("/opt/ml/code/models/net.py")
    'models/net.py'
    """
    return file.rpartition(_CODE)[2]


def is_marks(line: str) -> bool:
    """Return True for a line that only marks the one above it.

    >>> [is_marks(line) for line in ("    ~~^~~", "    x = a / b", "")]
    [True, False, False]
    """
    return bool(line.strip()) and not line.strip(_MARKS)

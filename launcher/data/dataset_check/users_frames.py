"""Tracebacks of the user's code, without the frames of Launcher and of the import system."""

from __future__ import annotations

import re
from pathlib import Path

import launcher

_FRAME = re.compile(r'^  File "([^"]*)", line \d+.*\n(?:    .*\n|  \[Previous line .*\n)*', re.M)
_OURS = str(Path(launcher.__file__).parent)


def users_traceback(text: str) -> str:
    r"""Return a traceback without frames of ours; "" if none is the user's.

    >>> users_traceback('Traceback:\n  File "<frozen importlib>", line 3, in f\nKeyError: 1\n')
    ''
    """
    text = text if text.endswith("\n") else f"{text}\n"
    kept = _FRAME.sub(lambda found: "" if _is_ours(found.group(1)) else found.group(), text)
    return kept.strip() if _FRAME.search(kept) else ""


def _is_ours(file: str) -> bool:
    return file.startswith((_OURS, "<frozen importlib", "<frozen runpy"))

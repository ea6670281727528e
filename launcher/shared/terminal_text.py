"""Make foreign text safe to show: a job's output, its names, a service's messages."""

from __future__ import annotations

import re

_RESET = "\x1b[0m"
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
_PART = re.compile(
    r"""
    (?P<style> \x1b\[ [0-9;:]* m )            # SGR: a colour or a style
    | (?P<blank> \x1b\[ [0-2]? K | \x1b\(B )  # clears the rest of a line: follows colours of grep
    | (?P<ends> ^\r+ | \r+$ )                 # of a progress bar, or of a line from Windows
    | (?P<control> [\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff] )
    | (?P<unseen> [\u061c\u180e\u200b\u200e\u200f\u2060-\u2064\U000e0000-\U000e007f] )
    """,
    re.VERBOSE,
)
#: SGR codes of colours that are followed by others: 38;5;8 is grey, and 8 alone hides the text.
_EXTENDED = {"38": {"5": 3, "2": 5}, "48": {"5": 3, "2": 5}, "58": {"5": 3, "2": 5}}
_CONCEAL = "8"


def printable(text: str, *, keep_styles: bool = True) -> str:
    r"""Return a text in which nothing controls a terminal: its cursor, title, clipboard, direction.

    Control characters are made visible: "\x1b[2J", "\u202e". Tabs and line ends stay, and colours
    if `keep_styles`, which end with the text.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    shown = _PART.sub(lambda part: _shown(part, keep_styles), text)
    return shown + _RESET if keep_styles and _is_styled_at_end(shown) else shown


def _shown(part: re.Match[str], keep_styles: bool) -> str:
    if (character := part["control"] or part["unseen"]) is not None:
        code = ord(character)
        if code > 0xFFFF:
            return f"\\U{code:08x}"
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    if part["style"] is not None and _conceals(part["style"][2:-1]):
        return f"\\x1b{part['style'][1:]}"
    return part["style"] or "" if keep_styles else ""


def _conceals(codes: str) -> bool:
    """Return True for a style that hides the text which follows it."""
    left = [code.lstrip("0") for code in re.split("[;:]", codes)]
    while left:
        if left[0] == _CONCEAL:
            return True
        kinds = _EXTENDED.get(left[0], {})
        del left[: kinds.get(left[1] if len(left) > 1 else "", 1)]
    return False


def _is_styled_at_end(text: str) -> bool:
    styles = _STYLE.findall(text)
    return bool(styles) and styles[-1] not in ("\x1b[0m", "\x1b[m")

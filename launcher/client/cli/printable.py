"""Text of others on a terminal: what a job prints, its names, and the keys of its files."""

from __future__ import annotations

import re

#: A colour or style (SGR); the only control sequence that is kept.
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
_RESET = "\x1b[0m"
#: Control sequences as of ECMA-48: CSI; OSC, DCS, SOS, PM and APC with their strings; and others.
_SEQUENCE = re.compile(
    r"""
    (?P<style> \x1b\[ [0-9;:]* m )
    | (?: \x1b\[ | \x9b ) [0-?]* [ -/]* [@-~]
    | (?: \x1b[\]PX^_] | [\x9d\x90\x98\x9e\x9f] ) .*? (?: \x07 | \x1b\\ | \x9c | $ )
    | \x1b [ -/]* [0-~]?
    | [\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]
    """,
    re.VERBOSE | re.DOTALL,
)


def printable(text: str, *, keep_styles: bool = True) -> str:
    """Return a text without what controls a terminal: cursor, title, clipboard, direction.

    Tabs and line ends stay, and colours if `keep_styles`, which end with the text.
    """
    if text.isprintable():
        return text
    kept = _SEQUENCE.sub(lambda match: match["style"] or "" if keep_styles else "", text)
    return kept + _RESET if keep_styles and _is_styled_at_end(kept) else kept


def _is_styled_at_end(text: str) -> bool:
    styles = _STYLE.findall(text)
    return bool(styles) and styles[-1] not in ("\x1b[0m", "\x1b[m")

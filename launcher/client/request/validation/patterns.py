r"""Translation of the regular expressions in AWS's models from Java's dialect to Python's.

The dialects differ in three places: Java's dot stops at every line end, its \d and \w are ASCII,
and it has Unicode categories (\p{L}). AWS matches the whole value: patterns need no anchors.
"""

from __future__ import annotations

import functools
import re

_DOT = "[^\n\r\x85\u2028\u2029]"
#: \w in Python's Unicode mode is letters, numbers and the underscore, which TagKey allows anyway.
_CATEGORIES = {
    "Alnum": "a-zA-Z0-9",
    "L": r"\w",
    "N": r"\w",
    "Z": " \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
}
#: A category, another escape, a whole [...], or a dot outside of brackets.
_PART = re.compile(r"\\p\{\w+\}|\\.|\[(?:\\.|[^\]])*\]|\.")
_CATEGORY = re.compile(r"\\p\{(\w+)\}")


@functools.cache
def compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern for `fullmatch`; return None if Python cannot (the service then checks it).

    >>> bool(compiled("[a-z]+").fullmatch("abc"))
    True
    """
    mode = re.UNICODE if r"\p{L}" in pattern else re.ASCII
    try:
        return re.compile(_PART.sub(_translated, pattern), mode)
    except (re.error, KeyError):
        return None


def _translated(part: re.Match[str]) -> str:
    text = part.group()
    if text == ".":
        return _DOT
    if text.startswith(r"\p"):
        return f"[{_category(part)}]"
    return _CATEGORY.sub(_category, text)


def _category(part: re.Match[str]) -> str:
    name = part.group(1) if part.re is _CATEGORY else part.group()[3:-1]
    return _CATEGORIES[name]

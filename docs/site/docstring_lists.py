"""Extension of griffe, which reads the docstrings for the reference: it makes Markdown of them.

A docstring lists arguments as `name: text`, one a line, for readers of the source. Markdown would
run these lines together, and take some for the title of an admonition and `>>>` for a quotation.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_ARGUMENTS = re.compile(r"^([a-z]\w*(?:, [a-z]\w*)*):(?= )", re.M)


class DocstringLists(Extension):
    """Turns each docstring into Markdown before it is parsed."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Replace the object's docstring, if it has one."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Return a docstring with its arguments as a list, and its examples as code."""
    return "\n\n".join(map(paragraph_as_markdown, re.split(r"\n\n(?! )", docstring)))


def paragraph_as_markdown(paragraph: str) -> str:
    """Return one paragraph, which is an example, a list of arguments, or prose."""
    if paragraph.startswith(">>>"):
        return f"```pycon\n{re.sub(r' *# doctest:.*', '', paragraph)}\n```"
    if _ARGUMENTS.match(paragraph):
        return _ARGUMENTS.sub(item, paragraph)
    return paragraph


def item(match: re.Match[str]) -> str:
    """Return the start of a list's item for the names that start a line."""
    return f"- {', '.join(f'`{name}`' for name in match[1].split(', '))}:"

"""Findings: problems located by the field of a specification, before line numbers are known."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from launcher.errors import Problem

#: A field inside a specification: ("instance_groups", 1, "instance_count").
FieldPath = tuple[str | int, ...]
#: Formats a field's location: "instance_groups[1].instance_count", or "job.yaml:7 (...)".
Where = Callable[[FieldPath], str]


@dataclass(frozen=True, kw_only=True)
class SpecFinding:
    """One problem with a field, and its fix.

    is_warning: the job may run despite it. about: other fields that the finding depends on.
    """

    path: FieldPath
    what: str
    fix: str
    is_warning: bool = False
    about: tuple[FieldPath, ...] = ()

    def problem(self, where: Where) -> Problem:
        """Return the finding as a Problem, located by `where`."""
        return Problem(what=self.what, where=where(self.path), fix=self.fix)

    def rests_on(self, broken: Iterable[FieldPath]) -> bool:
        """Return whether the finding depends on a broken field, or on one inside or around it."""
        return any(
            _is_inside(path, other) or _is_inside(other, path)
            for path in (self.path, *self.about)
            for other in broken
        )


def _is_inside(path: FieldPath, other: FieldPath) -> bool:
    return path[: len(other)] == other


def dotted(path: FieldPath) -> str:
    """Return the field path in Python notation.

    >>> dotted(("instance_groups", 1, "instance_count"))
    'instance_groups[1].instance_count'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "the specification"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to `word`, or None."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def choice_fix(word: object, known: Iterable[str]) -> str:
    """Suggest a fix for a word that is not one of the known ones."""
    known = list(known)
    near = did_you_mean(str(word), known)
    return f'did you mean "{near}"?' if near else f"write one of {', '.join(known)}"


def shown(value: object) -> str:
    """Return the value in YAML notation, shortened to 60 characters."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

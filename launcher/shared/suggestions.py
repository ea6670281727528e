"""Suggestions of fixes, and the values that messages show."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to `word`, first of all with the same letters; or None."""
    import difflib  # which few messages need

    matches = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return max(matches, key=lambda each: sorted(each) == sorted(word), default=None)


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

"""Redaction of a job's secrets in what its hosts print, record and report."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping

from launcher.shared.secret_sources import SHORTEST_SECRET, secret_sources

_MASK = "***"


class SecretMask:
    """Replaces the values of secrets by "***".

    A value is also found as JSON has it; one of several lines, such as a key, line by line.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)  # the whole before its parts
        self._encoded = [form.encode(errors="surrogateescape") for form in self._forms]

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SecretMask:
        """Return the mask of a process's own secrets."""
        return cls(environment.get(name, "") for name in secret_sources(environment))

    def text(self, text: str) -> str:
        """Return the text without the values."""
        for form in self._forms:
            text = text.replace(form, _MASK)
        return text

    def output(self, text: bytes) -> bytes:
        """Return whole lines of a program's output without the values."""
        for form in self._encoded:
            text = text.replace(form, _MASK.encode())
        return text


@functools.cache
def own_mask() -> SecretMask:
    """Return the mask of the secrets that this process has when it first asks for it."""
    return SecretMask.of(os.environ)


def _forms(value: str) -> Iterator[str]:
    for each in (value, *value.splitlines()):
        for form in (each.strip(), json.dumps(each.strip())[1:-1]):
            if len(form) >= SHORTEST_SECRET:
                yield form

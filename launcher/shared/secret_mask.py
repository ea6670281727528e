"""Redaction of a job's secrets in what its hosts print, record and report."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from urllib.parse import quote, quote_plus

from launcher.shared.variables import SHORTEST_SECRET, secret_sources

_MASK = "***"
#: Characters of a form in base64, below which other text has it by chance.
_SHORTEST_IN_BASE64 = 8


class SecretMask:
    """Replaces the values of secrets by "***".

    A value is also found as JSON, HTML, a URL or base64 has it; one of several lines, such as a
    key, line by line.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value)}
        ordered = sorted(forms, key=len, reverse=True)  # the whole before its parts
        self._forms = ordered
        self._encoded = [form.encode(errors="surrogateescape") for form in ordered]
        self._pattern = re.compile("|".join(map(re.escape, ordered)))
        self._encoded_pattern = re.compile(b"|".join(map(re.escape, self._encoded)))
        self._beginnings = _beginnings(self._encoded)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SecretMask:
        """Return the mask of a process's own secrets."""
        return cls(environment.get(name, "") for name in secret_sources(environment))

    def text(self, text: str) -> str:
        """Return the text without the values."""
        is_clean = not any(form in text for form in self._forms)
        return text if is_clean else self._pattern.sub(_MASK, text)

    def output(self, text: bytes) -> bytes:
        """Return a program's whole output without the values."""
        is_clean = not any(form in text for form in self._encoded)
        return text if is_clean else self._encoded_pattern.sub(_MASK.encode(), text)

    def split(self, text: bytes) -> tuple[bytes, bytes]:
        """Return output without the values, and the end that may be the beginning of a value."""
        end = self._end(text)
        if end < len(text) and any(form in text for form in self._encoded):
            for found in self._encoded_pattern.finditer(text):
                if found.start() >= end:
                    break
                if found.end() > end:  # the value itself ends as it begins
                    end = found.end() + self._end(text[found.end() :])
        return self.output(text[:end]), text[end:]

    def cut(self, text: bytes) -> bytes:
        """Return output that may have been cut within a value without it."""
        passed, end = self.split(text)
        return passed + self.rest(end)

    def rest(self, text: bytes) -> bytes:
        """Return the end that `split` held back, once nothing follows; a cut value is one too."""
        text = self.output(text)
        end = self._end(text)
        return text if len(text) - end < SHORTEST_SECRET else text[:end] + _MASK.encode()

    def _end(self, text: bytes) -> int:
        """Return where the longest beginning of a value begins that ends the text."""
        lengths = (
            length
            for form, length in self._beginnings.get(text[-1:], ())
            if text.endswith(form[:length])
        )
        return len(text) - max(lengths, default=0)


class MaskedStream:
    """A program's output, each part of which is passed on once no more output can make it secret.

    held: the end that may be the beginning of a secret.
    """

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self.held = b""

    def add(self, chunk: bytes) -> bytes:
        """Add output; return what has no part of a secret."""
        passed, self.held = self._mask.split(self.held + chunk)
        return passed

    def close(self) -> bytes:
        """Return the rest."""
        return self._mask.rest(self.held)


@functools.cache
def own_mask() -> SecretMask:
    """Return the mask of the secrets that this process has when it first asks for it."""
    return SecretMask.of(os.environ)


def _forms(value: str) -> Iterator[str]:
    for each in (value, *value.splitlines()):
        text = each.strip()
        content = text.encode(errors="surrogateescape")
        forms = {text, escape(text), repr(content)[2:-1], *_in_urls(content)}
        for shown in (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text)):
            forms.add(shown[1:-1])
        yield from (form for form in forms if len(form) >= SHORTEST_SECRET)
    yield from _in_base64(value.strip())


def _in_urls(content: bytes) -> Iterator[str]:
    yield from (quote(content, safe=""), quote(content), quote_plus(content))


def _in_base64(value: str) -> Iterator[str]:
    """Yield what base64 has of a value wherever it is in what is encoded, as in user:password."""
    content = value.encode(errors="surrogateescape")
    for before in range(3):
        # Its first and last letters may also stand for bits of what is beside the value.
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(b"\0" * before + content).decode().rstrip("=")
            form = letters[(8 * before + 5) // 6 : 8 * (before + len(content)) // 6]
            if len(form) >= _SHORTEST_IN_BASE64:
                yield form


def _beginnings(forms: Iterable[bytes]) -> dict[bytes, list[tuple[bytes, int]]]:
    """Return, by its last byte, each beginning of a form that is not all of it."""
    found: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
    for form in forms:
        for length in range(1, len(form)):
            found[form[length - 1 : length]].append((form, length))
    return dict(found)

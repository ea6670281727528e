"""Read a JSON file member by member, in bounded memory.

`json.load` would need gigabytes for the price list of a service. Here the caller walks through the
objects that are large, and decodes those that are small.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

_CHUNK = 1 << 16
#: Characters of one decoded value; a product or a term of a price list has about 2,000.
_LARGEST_VALUE = 1 << 22
_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"
_AFTER_VALUE = frozenset(f",:}}]{_SPACE}")


class TextSource(Protocol):
    """A file of text that is open for reading."""

    def read(self, size: int, /) -> str:
        """Return at most `size` characters; "" at the end."""


class JsonStreamError(ValueError):
    """The text is not the JSON that was expected, or ends early."""


class JsonStream:
    """A place in a JSON text, which each call moves forward."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._ended = False

    def members(self) -> Iterator[str]:
        """Yield the keys of the object here; the caller reads, walks or skips the value of each."""
        self._take("{")
        if self._next() == "}":
            self._take("}")
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise JsonStreamError(f"a key is {key!r}")
            self._take(":")
            yield key
            if self._next() == "}":
                self._take("}")
                return
            self._take(",")

    def value(self) -> object:
        """Decode and return the value here, which may have 4 million characters at most."""
        self._next()
        while True:
            problem = "the value has no end"
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                problem = str(error)
            else:
                # The text may end inside a number: "1", "1." and "1.5e" of 1.5e3 read as 1 and 1.5.
                if self._ended or self._text[end : end + 1] in _AFTER_VALUE:
                    self._at = end
                    return value
            if self._ended or len(self._text) - self._at > _LARGEST_VALUE:
                raise JsonStreamError(problem)
            self._fill()

    def skip(self) -> None:
        """Pass over the value here: an object member by member, anything else at once."""
        if self._next() != "{":
            self.value()
            return
        for _ in self.members():
            self.skip()

    def end(self) -> None:
        """Raise JsonStreamError if anything follows."""
        while not self._ended:
            self._fill()
        if self._text[self._at :].strip(_SPACE):
            raise JsonStreamError("something follows the end")

    def _take(self, character: str) -> None:
        found = self._next()
        if found != character:
            raise JsonStreamError(f"{character!r} is expected, and {found or 'the end'!r} is there")
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no space, without taking it; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._fill()

    def _fill(self) -> None:
        more = self._source.read(_CHUNK)
        self._ended = not more
        self._text, self._at = self._text[self._at :] + more, 0

"""JSON read member by member: what it yields is what json.loads would, however it arrives."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.client.catalogue import JsonStream, JsonStreamError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Trickle(io.StringIO):
    """A file that gives at most a few characters at a time."""

    def __init__(self, text: str, most: int) -> None:
        super().__init__(text)
        self.most = most

    def read(self, size: int | None = -1, /) -> str:
        return super().read(min(self.most, size or 0))


@pytest.mark.long
@given(document=st.dictionaries(st.text(), VALUES, max_size=5), most=st.integers(1, 9))
def test_members_are_those_of_json_loads(document: dict[str, object], most: int) -> None:
    stream = JsonStream(Trickle(json.dumps(document, indent=1), most))
    read = {key: stream.value() for key in stream.members()}
    stream.end()

    assert read == document


@pytest.mark.long
@given(document=st.dictionaries(st.text(), VALUES, max_size=5), most=st.integers(1, 9))
def test_what_is_skipped_is_passed_over_whole(document: dict[str, object], most: int) -> None:
    text = json.dumps({"first": document, "last": 7})
    stream = JsonStream(Trickle(text, most))
    found = []
    for key in stream.members():
        if key == "first":
            stream.skip()
        else:
            found.append(stream.value())
    stream.end()

    assert found == [7]


def read_all(text: str) -> None:
    stream = JsonStream(io.StringIO(text))
    for _ in stream.members():
        stream.skip()
    stream.end()


def test_every_early_end_is_found() -> None:
    text = json.dumps({"a": {"b": 12, "c": [1, "x"]}, "d": "e"})
    read_all(text)
    for length in range(len(text)):
        with pytest.raises(JsonStreamError):
            read_all(text[:length])


@pytest.mark.parametrize("text", ["[1]", "{1: 2}", '{"a" 1}', '{"a": 1,}', '{"a": 1} x', "<html>"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(JsonStreamError):
        read_all(text)


def test_a_value_without_end_is_given_up() -> None:
    text = Trickle('{"a": "' + "x" * 9_000_000, most=1 << 20)

    with pytest.raises(JsonStreamError):
        next(stream_of_values(text))
    assert text.tell() < 6_000_000  # the rest is not read


def stream_of_values(text: io.StringIO) -> Iterator[object]:
    stream = JsonStream(text)
    for _ in stream.members():
        yield stream.value()

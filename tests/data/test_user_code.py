"""What is told of exceptions, whatever their text is."""

from __future__ import annotations

from launcher.data.order import user_code


class Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def told(error: Exception) -> tuple[str, str, str]:
    try:
        raise error
    except type(error) as caught:
        return (
            user_code.error_text(caught),
            user_code.error_repr(caught),
            user_code.latest_traceback(),
        )


def test_an_exception_is_reported_with_its_text() -> None:
    text, name, trace = told(ValueError("a word"))
    assert (text, name) == ("a word", "ValueError('a word')")
    assert trace.startswith("Traceback")
    assert trace.endswith("ValueError: a word\n")


def test_a_long_text_is_reported_by_its_beginning_and_end() -> None:
    whole = "b" * 24_000 + "m" * 7 + "e" * 8_000
    text, name, trace = told(ValueError(whole))
    assert text == "b" * 24_000 + " ... (7 characters) ... " + "e" * 8_000
    assert name.startswith("ValueError('b")
    assert max(len(name), len(trace)) < len(whole) + 40
    assert trace.endswith("e\n")
    assert told(ValueError(whole[7:]))[0] == whole[7:]


def test_an_exception_whose_text_raises_is_reported() -> None:
    text, name, trace = told(Untellable())
    assert text == name == "Untellable, whose own text raised RuntimeError"
    assert "Untellable" in trace

"""What reaches the terminal of a text that others have written."""

import pytest

from launcher.client.cli.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain, with é and 音", "plain, with é and 音", id="plain"),
        pytest.param("a\tb\nc", "a\tb\nc", id="tabs and lines"),
        pytest.param("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", id="a colour"),
        pytest.param("\x1b[1;38;5;9mred", "\x1b[1;38;5;9mred\x1b[0m", id="a colour left on"),
        pytest.param("\x1b[2J\x1b[Hgone", "gone", id="a cleared screen"),
        pytest.param("\x1b]0;title\x07x", "x", id="a title"),
        pytest.param("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link", id="a link"),
        pytest.param("\x1b]52;c;aGk=", "", id="the clipboard, unfinished"),
        pytest.param("\x1bP1$r\x1b\\x", "x", id="a device string"),
        pytest.param("\x9b2Jx\x9d0;t\x9cy", "xy", id="of one character"),
        pytest.param("\x1bcx", "x", id="a reset"),
        pytest.param("a\rb\x08c\x07\x00", "abc", id="control characters"),
        pytest.param("a\u202eb", "ab", id="another direction"),
        pytest.param("x\x1b", "x", id="cut"),
        pytest.param("\x1b[6nq\x1b[?1049h", "q", id="a question and another screen"),
    ],
)
def test_what_controls_a_terminal_is_left_out(text, shown):
    assert printable(text) == shown


def test_without_colours():
    assert printable("\x1b[31mred\x1b[0m", keep_styles=False) == "red"


def test_any_characters_leave_nothing_that_controls():
    for code in (*range(0xA0), 0x2028, 0x202E, 0x2066):
        for before in ("", "\x1b", "\x1b[", "\x1b]"):
            left = printable(f"{before}{chr(code)}1;2mx", keep_styles=False)
            assert all(each.isprintable() or each in "\t\n" for each in left), (before, code)

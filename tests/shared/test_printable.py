"""What reaches the terminal of a text that others have written."""

import pytest

from launcher.shared import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain, with é and 音", "plain, with é and 音", id="plain"),
        pytest.param("a\tb\nc", "a\tb\nc", id="tabs and lines"),
        pytest.param("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", id="a colour"),
        pytest.param("\x1b[1;38;5;9mred", "\x1b[1;38;5;9mred\x1b[0m", id="a colour left on"),
        pytest.param("\x1b[2J\x1b[Hgone", r"\x1b[2J\x1b[Hgone", id="a cleared screen"),
        pytest.param("\x1b]0;title\x07x", r"\x1b]0;title\x07x", id="a title"),
        pytest.param("\x1b]8;;http://a\x1b\\link", r"\x1b]8;;http://a\x1b" + "\\link", id="a link"),
        pytest.param("\x1b]52;c;aGk=", r"\x1b]52;c;aGk=", id="the clipboard, unfinished"),
        pytest.param("\x1bP1$r\x1b\\x", r"\x1bP1$r\x1b" + "\\x", id="a device string"),
        pytest.param("\x9b2Jx\x9d0;t\x9cy", r"\x9b2Jx\x9d0;t\x9cy", id="of one character"),
        pytest.param("\x1bcx", r"\x1bcx", id="a reset"),
        pytest.param("a\rb\x08c\x07\x00", r"a\x0db\x08c\x07\x00", id="control characters"),
        pytest.param("\r 10%\r", " 10%", id="a progress bar"),
        pytest.param("a\u202eb\u2066c", r"a\u202eb\u2066c", id="another direction"),
        pytest.param("a\u200fb\u061c", r"a\u200fb\u061c", id="marks of a direction"),
        pytest.param("a\u200bb\U000e0041", r"a\u200bb\U000e0041", id="characters not seen"),
        pytest.param("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467", id="joined"),
        pytest.param("a\ud800b", r"a\ud800b", id="half a character"),
        pytest.param("x\x1b", r"x\x1b", id="cut"),
        pytest.param("\x1b[6nq\x1b[?1049h", r"\x1b[6nq\x1b[?1049h", id="a question and a screen"),
        pytest.param("\x1b[8mhid", r"\x1b[8mhid", id="a hidden text"),
        pytest.param("\x1b[1;08mhid", r"\x1b[1;08mhid", id="another hidden text"),
        pytest.param("\x1b[38;5;8mgrey\x1b[0m", "\x1b[38;5;8mgrey\x1b[0m", id="grey"),
        pytest.param("\x1b[01;31m\x1b[Kgrep\x1b[m\x1b[K", "\x1b[01;31mgrep\x1b[m", id="of grep"),
    ],
)
def test_what_controls_a_terminal_is_made_visible(text, shown):
    assert printable(text) == shown


def test_without_colours():
    assert printable("\x1b[31mred\x1b[0m", keep_styles=False) == "red"


def test_any_characters_leave_nothing_that_controls():
    for code in (*range(0xA0), 0x2028, 0x202E, 0x2066):
        for before in ("", "\x1b", "\x1b[", "\x1b]"):
            left = printable(f"{before}{chr(code)}1;2mx", keep_styles=False)
            assert all(each.isprintable() or each in "\t\n" for each in left), (before, code)

"""What a program prints, in the lines that its host's log keeps."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from launcher.runtime import LogLines


def kept(*chunks: bytes) -> list[str]:
    """The lines of a program that printed these chunks and ended."""
    lines = LogLines()
    text = b"".join([*map(lines.add, chunks), lines.close()])
    return text.decode().splitlines()


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"one\ntwo\n"], ["one", "two"], id="whole lines"),
        pytest.param([b"on", b"e\ntw", b"o"], ["one", "two"], id="in parts"),
        pytest.param([b"one\r\ntwo\r\n"], ["one", "two"], id="line ends of another system"),
        pytest.param([b"\n\n"], ["", ""], id="empty lines"),
        pytest.param([b"\r 1%", b"\r 2%", b"\r100%\n"], ["100%"], id="a bar that ends its line"),
        pytest.param([b"\r 1%", b"\r 2%"], [" 2%"], id="a bar that does not"),
        pytest.param([b"1%\r2%\r", b"3%\r"], ["3%"], id="carriage returns behind"),
        pytest.param([b"\r 1%\r 2%\r 3%\nnext\n"], [" 3%", "next"], id="a bar in one chunk"),
        pytest.param([b"\r 1%", b"said\n", b"\r 2%\n"], ["said", " 2%"], id="a line meanwhile"),
        pytest.param([b"\r 1%", b"said\n"], ["said", " 1%"], id="a bar left for good"),
        pytest.param(
            [b"\r 1%", b"\r    \rsaid\n\r 2%", b"\n"], ["said", " 2%"], id="a bar that makes room"
        ),
        pytest.param([b"\r 1%", b"\x1b[2K\r 2%\n"], [" 2%"], id="erased lines"),
        pytest.param(
            [b"\ra 1%", b"\n\rb 1%\x1b[A", b"\ra 2%", b"\n\rb 2%\x1b[A", b"\ra 3%\n"],
            ["a 3%"],
            id="two bars",
        ),
        pytest.param(
            [b"launcher: host_failed cause=none\n", b"launcher| x\nlauncher run\n"],
            [" launcher: host_failed cause=none", " launcher| x", "launcher run"],
            id="like events",
        ),
        pytest.param([b"laun", b"cher: x\n"], [" launcher: x"], id="like an event, in parts"),
        pytest.param([b"\rlauncher: x\n"], [" launcher: x"], id="like an event, overwritten"),
    ],
)
def test_lines_are_kept_as_a_terminal_shows_them_last(
    chunks: list[bytes], lines: list[str]
) -> None:
    assert kept(*chunks) == lines


#: What tqdm writes for nested bars, one write each.
NESTED = [
    *[b"\repochs: 0%", b"\n", b"\rinner: 0%", b"\x1b[A", b"\n", b"\rinner: 50%", b"\x1b[A"],
    *[b"\n", b"\r          ", b"\x1b[A", b"\r          ", b"\r", b"epoch 0 done", b"\n"],
    *[b"\repochs: 50%", b"\n", b"\rinner: 0%", b"\x1b[A", b"\n\n", b"\rthird: 9%", b"\x1b[A\x1b[A"],
    *[b"\n", b"\r          ", b"\r", b"\x1b[A", b"\repochs: 100%", b"\n", b"finished\n"],
]


@pytest.mark.parametrize("split", range(len(NESTED)))
@pytest.mark.parametrize("whole", [True, False], ids=["in two chunks", "in a chunk for each write"])
def test_nested_bars_are_kept_once_wherever_their_chunks_end(split: int, whole: bool) -> None:
    left, right = NESTED[:split], NESTED[split:]
    chunks = [b"".join(left), b"".join(right)] if whole else [b"".join(left), *right]
    assert kept(*filter(None, chunks)) == ["epoch 0 done", "epochs: 100%", "finished"]


@pytest.mark.parametrize(
    "written",
    [b"a line\n" + b"\n\rbar 1%\x1b[A", b"\n" + b"a line\n" + b"\rbar 1%\x1b[A"],
    ids=["before a bar", "between its writes"],
)
@pytest.mark.parametrize("split", [0, 7, 8, 15, 18, 27])
def test_a_line_of_another_thread_is_kept_beside_a_bar_below(written: bytes, split: int) -> None:
    log = LogLines()
    text = written + b"\r       \r" + b"another\n"
    kept = b"".join([log.add(text[:split]), log.add(text[split:]), log.close()])
    assert b"a line" in kept.splitlines()
    assert b"another" in kept.splitlines()


def drawn(bars: int, times: int) -> Iterator[bytes]:
    """What tqdm writes for bars below each other, one write each, until it has cleared them."""
    for state in [f"{time}%" for time in range(times)] + [" " * 8]:
        for place in range(bars):
            moved = [b"\n" * place, b"\x1b[A" * place]
            text = f"\rbar {place}: {state}" if state.strip() else f"\r{state}"
            cleared = [] if state.strip() else [b"\r"]
            yield from filter(None, [moved[0], text.encode(), *cleared, moved[1]])


@pytest.mark.parametrize("bars", [1, 2, 3])
def test_lines_between_any_two_writes_of_bars_are_all_kept(bars: int) -> None:
    """As a metric that is printed while Ray Data's bars end, whose thread writes them."""
    for seed in range(100):
        chance = random.Random(seed)
        writes = list(drawn(bars, times=chance.randrange(1, 4)))
        for number in range(3):
            writes.insert(chance.randrange(len(writes) + 1), b"metric_%d=0.97\n" % number)
        share = chance.random()
        log, text, chunk = LogLines(), b"", b""
        for write in writes:
            chunk += write
            if chance.random() < share:
                text, chunk = text + log.add(chunk), b""
        text += log.add(chunk) + log.close()
        assert sorted(re.findall(rb"metric_(\d)=0\.97\n", text)) == [b"0", b"1", b"2"], writes


def test_a_bar_that_has_ended_is_kept_while_the_next_one_runs() -> None:
    lines = LogLines()
    text = [lines.add(chunk) for chunk in (b"\rfirst: 100%", b"\n", b"\rnext: 1%", b"\rnext: 2%")]
    assert b"".join(text) == b"first: 100%\n"
    assert lines.open_text == b"next: 2%"


def test_an_open_line_is_known() -> None:
    lines = LogLines()
    lines.add(b"said\n\r 10%|#")
    lines.add(b"\r 20%|##")
    assert lines.open_text == b" 20%|##"
    lines.add(b"meanwhile\n")
    assert lines.open_text == b" 20%|##"
    assert lines.add(b"\r100%\n") == b""
    assert lines.open_text == b"100%"
    assert lines.decide() == b"100%\n"
    assert lines.open_text == b""


def test_a_line_without_end_takes_bounded_memory() -> None:
    lines = LogLines()
    text = b"".join(lines.add(b"x" * 65536) for _ in range(40))
    assert [len(line) for line in text.splitlines()] == [17 * 65536] * 2


def test_cutting_takes_time_in_proportion_to_the_text() -> None:
    """Bars of 20,000 states in one chunk, and lines of which one has a carriage return."""
    states = b"".join(b"\r%d%%" % number for number in range(20_000))
    assert kept(states + b"\n") == ["19999%"]
    plain = b"a line of a program\n" * 50_000
    assert kept(plain + b"\rbar\n") == ["a line of a program"] * 50_000 + ["bar"]


@pytest.mark.parametrize(
    ("start", "chunk"),
    [
        pytest.param(b"\rbar\n\r", b"x" * 65536, id="text without end"),
        pytest.param(b"\rbar", b"\n" * 65536, id="blank lines"),
    ],
)
def test_what_follows_a_bar_is_held_back_up_to_a_limit(start: bytes, chunk: bytes) -> None:
    lines = LogLines()
    lines.add(start)
    text = b"".join(lines.add(chunk) for _ in range(40))
    assert not lines.is_undecided
    assert text.startswith(b"bar\n")
    assert text.count(chunk) >= 32
    assert (text + lines.close()).count(chunk[:1]) >= 40 * len(chunk)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(b"\x1b[A" + b"\r" * 2_000_000 + b"end\n", ["end"], id="carriage returns"),
        pytest.param(b"\x1b[A" + b"\r 9%" * 500_000 + b"\n", [" 9%"], id="states of a bar"),
        pytest.param(b"\n" * 500_000 + b"\x1b[A", [""] * 500_000 + ["\x1b[A"], id="blank lines"),
    ],
)
def test_text_with_moves_of_the_cursor_is_cut_in_one_pass(text: bytes, lines: list[str]) -> None:
    """A search from each carriage return or line end would take minutes."""
    assert kept(text) == lines

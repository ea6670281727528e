"""launcher logs --tail, --since and --grep: the lines that they select."""

import re

import click
import pytest

from launcher.client.cli.line_printer import LinePrinter
from launcher.client.cli.line_selection import LineSelection, WantedLines
from launcher.client.jobs.log_line import LogLine

LINES = ("one", "two", "three")


def selected(*texts, pattern=None, tail=None):
    """What is printed behind group and host."""
    printed = []
    printer = LinePrinter([], printed.append, verbose=False)
    wanted = WantedLines(since=None, pattern=pattern and re.compile(pattern), tail=tail)
    selection = LineSelection(wanted, printer)
    for text in texts:
        selection(LogLine(group="g", host="algo-1", text=text, time=0.0))
    selection.release()
    return [click.unstyle(line).partition(" | ")[2] for line in printed]


def test_a_tail_may_be_longer_than_any_log():
    assert selected(*LINES, tail=10**30) == list(LINES)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(" * 1000 + ")" * 1000])
def test_what_is_no_regular_expression_is_refused(terminal, pattern):
    result = terminal("logs", "job-1", "--grep", pattern)
    assert result.exit_code == 2
    assert "is no regular expression" in result.stderr

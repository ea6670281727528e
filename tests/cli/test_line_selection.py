"""launcher logs --tail, --since and --grep: the lines that they select."""

import json
import re

import click
import pytest

from launcher.client.cli import JsonLinePrinter, LinePrinter, LineSelection, WantedLines
from launcher.client.jobs import LogLine, select_hosts
from launcher.errors import SpecError

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


EVENTS = (
    'launcher: memory_low host=algo-1 group=g why="2 MB are left"',
    "launcher: train_step rank=0 epoch=1 step=10 steps=90 loss=0.5 samples_per_second=12",
    "launcher: host_usage host=algo-1 group=g cpu=0.5",
    "\x1b[32mINFO\x1b[0m: warning",
)


def test_a_pattern_is_searched_in_what_is_printed():
    warning = "warning: memory is low: 2 MB are left"
    assert selected(*EVENTS, pattern="^warning: ") == [warning]
    assert selected(*EVENTS, pattern="step 10/90: loss") == ["step 10/90: loss 0.5, 12 samples/s"]
    assert selected(*EVENTS, pattern="^INFO: ") == ["INFO: warning"]
    assert selected(*EVENTS, pattern="memory_low|host_usage") == []


def test_a_pattern_is_searched_in_the_text_of_json(capsys):
    found = re.compile("memory_low|INFO: ")
    wanted = WantedLines(since=None, pattern=found, tail=None)
    selection = LineSelection(wanted, JsonLinePrinter())
    for text in EVENTS:
        selection(LogLine(group="g", host="algo-1", text=text, time=0.0))
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == [
        EVENTS[0],
        EVENTS[3],
    ]


def test_a_host_of_another_group_is_refused():
    groups = {"algo-1": "data", "algo-2": "train"}
    assert select_hosts(groups, group="train", host="algo-2") == {"algo-2"}
    with pytest.raises(SpecError, match="'algo-1' is not in the group 'train', but in 'data'"):
        select_hosts(groups, group="train", host="algo-1")

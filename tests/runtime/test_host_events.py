"""The events of a host, whatever its programs print and however they end."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from hosts import Hosts

#: Each of 20 steps emits an event; a bar stays open on stderr all the time.
TRAIN = """
import os, signal, subprocess, sys, time
from launcher.runtime.host.event_log import emit

print("launcher: step_done step=99")
print(sys.stdout.isatty(), sys.stderr.isatty(), os.isatty(0))
for step in range(20):
    if {bar}:
        sys.stderr.write(f"\\r {{step}}/20 [" + "#" * step)
        sys.stderr.flush()
    emit("step_done", step=step)
"""
DYING = """
import os, signal
from launcher.runtime.host.event_log import emit

if not os.fork():
    emit("from_a_child", text="a\\nb" * 3000)
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
os.execv("/bin/sh", ["/bin/sh", "-c", "printf 'launcher: of_a_shell x=1\\n' >> $LAUNCHER_EVENTS"])
"""


def steps(hosts: Hosts) -> list[object]:
    return [fields["step"] for fields in hosts["algo-1"].events("step_done")]


@pytest.mark.long
def test_a_bar_that_leaves_its_line_open_costs_no_event(make_hosts: Callable[..., Hosts]) -> None:
    seen = {}
    for bar in (True, False):
        hosts = make_hosts({"train.py": TRAIN.format(bar=bar)}, train=1, processes_per_host=1)
        hosts.run()
        seen[bar] = steps(hosts)
        lines = hosts["algo-1"].output.splitlines()
        assert lines.count(" 19/20 [" + "#" * 19) == bar
        assert " launcher: step_done step=99" in lines  # a line of the script's own
        assert "False False False" in lines
    assert seen[True] == seen[False] == list(range(20))


def test_events_outlive_their_process_and_are_whole(make_hosts: Callable[..., Hosts]) -> None:
    hosts = make_hosts({"train.py": textwrap.dedent(DYING)})
    hosts.run()
    assert [fields["text"] for fields in hosts["algo-1"].events("from_a_child")] == ["a\nb" * 3000]
    assert hosts["algo-1"].events("of_a_shell") == [{"x": 1}]

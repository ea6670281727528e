"""A program of a host that asks its user something says why there is no answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosts import Hosts

MakeHosts = Callable[..., Hosts]


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ("breakpoint()", "NoTerminal: breakpoint() waits for a user, and a host has no terminal"),
        ("import pdb; pdb.set_trace()", "BdbQuit (a debugger waits for a user, and a host has no"),
        ("input('Go on? ')", "EOFError: EOF when reading a line (input() waits for a user, and a"),
    ],
)
def test_what_asks_the_user_fails_with_the_reason(
    make_hosts: MakeHosts, asks: str, words: str
) -> None:
    hosts = make_hosts({"train.py": f"print('begins')\n{asks}\nprint('ends')\n"})
    hosts.fail()
    assert words in str(hosts["algo-1"].failure)
    assert "`launcher run --debug` runs the job's rank 0 in your terminal" in str(
        hosts["algo-1"].failure
    )
    assert "\nends\n" not in hosts["algo-1"].output


@pytest.mark.parametrize(
    ("variable", "printed"), [("debugger.stop", "stops"), ("0", "goes on")], ids=["own", "off"]
)
def test_a_debugger_of_the_users_is_called(
    make_hosts: MakeHosts, variable: str, printed: str
) -> None:
    files = {
        "train.py": "breakpoint()\nprint('goes on')\n",
        "debugger.py": "def stop(): print('stops')\n",
    }
    hosts = make_hosts(files, environment={"PYTHONBREAKPOINT": variable})
    hosts.run()
    lines = [each for each in hosts["algo-1"].output.splitlines() if "launcher:" not in each]
    assert lines == list(dict.fromkeys([printed, "goes on"]))


def test_a_child_of_the_script_says_it_too(make_hosts: MakeHosts) -> None:
    files = {"run.sh": "python asks.py\n", "asks.py": "breakpoint()\n"}
    hosts = make_hosts(files, entry_point="run.sh")
    hosts.fail()
    assert "NoTerminal: breakpoint() waits for a user" in hosts["algo-1"].output

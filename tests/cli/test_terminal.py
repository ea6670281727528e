"""What a person sees on a terminal while a job runs: a real pseudo-terminal, at two widths."""

import fcntl
import io
import os
import pty
import signal
import struct
import sys
import termios
from contextlib import ExitStack
from datetime import datetime, timezone
from types import SimpleNamespace

import click
import pytest
from captured_screen import EmulatedScreen, capture
from click.testing import CliRunner

from launcher.client.cli import (
    JobView,
    detach_on_ctrl_c,
    echo,
    main,
    terminal_width,
    with_exit_code,
)

LAUNCHER = [sys.executable, "-m", "launcher"]
#: A bar that stays open while lines are printed, and text that would control the terminal.
TRAIN = """\
import sys, time
for step in range(12):
    sys.stderr.write(f"\\r {step + 1}/12 [" + "#" * step)
    sys.stderr.flush()
    time.sleep(0.2)
    if step % 4 == 3:
        print("step", step)
sys.stderr.write("\\r 12/12 [" + "#" * 12 + "\\n")
print("\\x1b]0;title\\x07\\x1b[2J\\x1b[Hafter", "x" * 100)
"""


@pytest.fixture
def environment(terminal):
    return {**terminal.environment, "TERM": "xterm-256color"}


def test_what_the_encoding_of_stdout_lacks_is_escaped(tmp_path):
    result = CliRunner(charset="latin-1").invoke(main, ["init", str(tmp_path / "é→")])
    assert result.exit_code == 0, result.exception
    assert result.stdout_bytes.decode("latin-1").splitlines()[0].endswith("é\\u2192/job.yaml")


@pytest.mark.long
@pytest.mark.parametrize("columns", [80, 120])
def test_the_users_lines_stay_and_the_state_is_drawn_below_them(terminal, environment, columns):
    job = terminal.write(TRAIN)
    shown = capture(
        [*LAUNCHER, "run", str(job), "--local", "--name", "job-1"],
        columns=columns,
        environment=environment,
    )
    assert shown.code == 0, shown.lines
    assert shown.screen.unknown == []
    prefix = "homogeneousCluster/algo-1 | "
    users = [line for line in shown.lines if line.startswith(prefix)]
    assert users[:-1] == [f"{prefix}{text}" for text in ("step 3", "step 7", "step 11")] + [
        f"{prefix} 12/12 [{'#' * 12}"
    ]
    assert users[-1].startswith(prefix + r"\x1b]0;title\x07\x1b[2J\x1b[Hafter xxx")
    live = [state for state in shown.states if any("Training" in line for line in state)]
    assert any(state[-1].startswith(f"{prefix}") and "/12 [#" in state[-1] for state in live)
    assert not any("Training" in line or "1 host" in line for line in shown.lines)
    theirs = [line for line in shown.lines if line.startswith("launcher: ")]
    assert theirs == []
    own = shown.lines.index("Job      job-1")
    assert len(users) + len(shown.lines) - own >= len(shown.lines) / 2


@pytest.mark.long
def test_ctrl_c_leaves_a_clean_screen(terminal, environment):
    job = terminal.write("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    shown = capture(
        [*LAUNCHER, "run", str(job), "--local", "--name", "job-1"],
        columns=80,
        environment=environment,
        interrupt_at=lambda text: "begun" in text and "Training" in text,
    )
    terminal("stop", "job-1")
    terminal("logs", "-f", "job-1")
    assert shown.code == 0
    assert "Detached; job job-1 continues." in shown.lines
    assert not any(line.startswith("Training") for line in shown.lines)


@pytest.mark.long
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(terminal, environment):
    shown = capture(
        [*LAUNCHER, "run", str(terminal.write()), "--local"],
        columns=80,
        environment={**environment, "TERM": "dumb"},
    )
    assert any(line.startswith("[Training] after ") for line in shown.lines)
    assert "homogeneousCluster/algo-1 | hello" in shown.lines


def test_the_screen_that_these_tests_read_is_one():
    screen = EmulatedScreen(columns=10)
    screen.feed("one\r\ntwo\r\n\x1b[1A\x1b[2Kthree\r\n0123456789ab\r\n\x1b[31mé音\x1b[0m\x1b[5n")
    assert screen.lines() == ["one", "three", "0123456789", "ab", "é音"]
    assert screen.unknown == ["5n"]


@pytest.mark.parametrize(
    ("variables", "has_colours"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)],
    ids=str,
)
def test_colours_are_for_terminals_that_have_them(monkeypatch, variables, has_colours):
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", terminal)

    @with_exit_code
    def verb():
        echo(click.style("Failed", fg="red"))
        return 0

    click.Command("verb", callback=verb).main([], standalone_mode=False)
    assert ("\x1b[" in terminal.getvalue()) is has_colours


@pytest.mark.parametrize(
    ("given", "columns", "width"),
    [("", 0, 80), ("", 132, 132), ("", 3, 20), ("100", 0, 100), ("x", 0, 80), ("0", 90, 90)],
)
def test_the_width_of_a_terminal_is_known_or_80(monkeypatch, given, columns, width):
    monkeypatch.setenv("COLUMNS", given)
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with os.fdopen(terminal, "w") as stream:
        assert terminal_width(stream) == width
    os.close(ours)
    assert terminal_width(io.StringIO()) is None


def job_of(notes):
    session = SimpleNamespace(place_notes=lambda now: ["here", *notes.get(id(now), ())])
    return SimpleNamespace(name="job-1", cost=lambda _: None, session=session)


def test_a_note_that_comes_late_is_shown_once(capsys):
    now, later = ({"CreationTime": datetime.now(timezone.utc), "ResourceConfig": {}} for _ in "ab")
    later["LocalLosses"] = ["lost"]
    job = job_of({id(now): ["early"], id(later): ["early", "late", "lost"]})
    with JobView(job, now) as view:
        for description in (now, later, later):
            view.show_description(description)
    assert capsys.readouterr().err == "note: late\n", "the summary has what was lost"


class PressedOnce(list):
    """Lines that wait to be written; Ctrl-C is pressed before the first one is taken."""

    def append(self, line):
        if not self:
            signal.raise_signal(signal.SIGINT)
        super().append(line)


def test_ctrl_c_while_a_line_is_taken_loses_no_line(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    description = {"CreationTime": datetime.now(timezone.utc), "ResourceConfig": {}}
    job = job_of({})
    with ExitStack() as views, detach_on_ctrl_c(job, views.close):
        view = views.enter_context(JobView(job, description))
        view._waiting = PressedOnce()
        view.show_notice("the line")
        view.close()
    assert terminal.getvalue().count("(the line)") == 1


class PressedWhileDrawn(io.StringIO):
    """A terminal on which Ctrl-C is pressed once, while the state of a job is written."""

    pressed = False

    def isatty(self):
        return True

    def write(self, text):
        if "Training" in text and not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def test_ctrl_c_while_the_state_is_drawn_eats_nothing_of_the_message(monkeypatch):
    terminal = PressedWhileDrawn()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    started = datetime.now(timezone.utc)
    description = {"SecondaryStatus": "Training", "CreationTime": started, "ResourceConfig": {}}
    job = job_of({})
    with ExitStack() as views, detach_on_ctrl_c(job, views.close):
        view = views.enter_context(JobView(job, description))
        view.show_description(description)
    screen = EmulatedScreen(columns=80)
    screen.feed(terminal.getvalue().replace("\n", "\r\n"))
    lines = screen.lines()
    assert terminal.pressed
    assert lines[0] == "Detached; job job-1 continues."
    assert lines[-1].startswith("  Ctrl-C again within 3 s")
    assert len(lines) == 5

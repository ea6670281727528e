"""Nothing that a job prints, raises or is called controls the terminal, or a page about it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from captured_screen import Capture, capture

from launcher import Job, LocalSession
from launcher.client.cli import echo

#: What each payload does on a terminal that obeys it.
PAYLOADS = {
    "clears the screen": "\x1b[2J",
    "clears what scrolled off": "\x1b[3J",
    "clears a line": "\x1b[2K",
    "goes to the top": "\x1b[H",
    "goes up": "\x1b[5A",
    "goes left": "\x1b[80D",
    "goes to a column": "\x1b[1G",
    "goes to the line's start": "x\r",
    "goes back": "xx\x08\x08",
    "rings": "\x07",
    "sets the title": "\x1b]0;owned\x07",
    "sets the title, ended by ST": "\x1b]2;owned\x1b\\",
    "sets the title by C1": "\x9d0;owned\x9c",
    "writes to the clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "asks for the clipboard": "\x1b]52;c;?\x07",
    "links elsewhere": "\x1b]8;;http://example.com\x1b\\here\x1b]8;;\x1b\\",
    "changes a colour of the palette": "\x1b]4;1;#ffffff\x07",
    "changes the background": "\x1b]11;#000000\x07",
    "notifies": "\x1b]9;owned\x07",
    "notifies as of rxvt": "\x1b]777;notify;owned;owned\x07",
    "shows a file of iTerm2": "\x1b]1337;File=name=b3duZWQ=:AAAA\x07",
    "names a folder": "\x1b]7;file:///etc\x07",
    "asks for the cursor": "\x1b[6n",
    "asks for the terminal": "\x1b[c",
    "asks for its version": "\x1b[>0q",
    "asks for the title": "\x1b[21t",
    "moves the window": "\x1b[3;0;0t",
    "changes the screen": "\x1b[?1049h",
    "hides the cursor": "\x1b[?25l",
    "reports the mouse": "\x1b[?1003h",
    "pastes in brackets": "\x1b[?2004h",
    "sets the region that scrolls": "\x1b[1;3r",
    "resets": "\x1bc",
    "resets softly": "\x1b[!p",
    "draws in lines": "\x1b(0",
    "shifts out": "\x0e",
    "is C1's CSI": "\x9b2J",
    "is a device string": "\x1bP+q544e\x1b\\",
    "is a program command": "\x1b_Gi=1;AAAA\x1b\\",
    "is a privacy message": "\x1b^owned\x1b\\",
    "draws sixels": "\x1bPq#0;2;0;0;0#0~~\x1b\\",
    "hides text": "\x1b[8m",
    "hides text among styles": "\x1b[1;8;31m",
    "turns the direction": "\u202e",
    "isolates a direction": "\u2067",
    "marks a direction": "\u200f",
    "has no width": "\u200b",
    "is a tag that is not seen": "\U000e0041",
    "breaks a line": "\u2028",
    "stops the output": "\x13",
    "ends the transmission": "\x04",
    "is a form feed": "\x0c",
    "is unfinished": "\x1b[",
}
JOB = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
metric_definitions: [{Name: "loss", Regex: "loss=([0-9.]+)"}]
"""
SCRIPT = """\
import json
payloads = json.loads({payloads!r})
print("\\x1b[32mgreen\\x1b[0m loss=0.5")
for number, payload in enumerate(payloads):
    print(f"{{payload}}<{{number:02d}}>", flush=True)
said = [f"{{payload}}<{{number:02d}}>" for number, payload in enumerate(payloads)]
raise RuntimeError("".join(said))
"""


def spoken(number: int, payload: str) -> str:
    """A payload with its number behind it, as the job prints it."""
    return f"{payload}<{number:02d}>"


def obeyed(text: str) -> list[str]:
    """The payloads that are in a text as they were printed."""
    return [
        name
        for number, (name, payload) in enumerate(PAYLOADS.items())
        if spoken(number, payload) in text
    ]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("payloads") / "project"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB)
    (folder / "train.py").write_text(SCRIPT.format(payloads=json.dumps(list(PAYLOADS.values()))))
    keys = "\n".join(f"{json.dumps(spoken(*each))}: 1" for each in enumerate(PAYLOADS.values()))
    (folder / "keys.yaml").write_text(f"{JOB}{keys}\n")
    return folder


@pytest.fixture(scope="module")
def shown(project: Path) -> Iterator[dict[str, Capture]]:
    """What verbs show of the job on a real terminal, in colours."""
    environment = {"LAUNCHER_HOME": str(project.parent / "home"), "TERM": "xterm-256color"}
    verbs = {
        "run": ["run", str(project), "--local", "--isolation", "process", "--name", "evil"],
        "logs": ["logs", "evil"],
        "logs --verbose": ["logs", "evil", "--verbose"],
        "status": ["status", "evil", "--verbose"],
        "list": ["list"],
        "diagnose": ["diagnose", "evil"],
        "metrics": ["metrics", "evil"],
        "wait": ["wait", "evil"],
        "keys": ["run", str(project / "keys.yaml"), "--local"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NO_COLOR", raising=False)
        yield {
            name: capture(
                [sys.executable, "-m", "launcher", *words], columns=200, environment=environment
            )
            for name, words in verbs.items()
        }


@pytest.mark.long
def test_no_payload_reaches_a_terminal(shown: dict[str, Capture]) -> None:
    assert len(PAYLOADS) >= 40
    reached = {verb: done.screen.unknown + obeyed(done.text) for verb, done in shown.items()}
    assert not any(reached.values()), reached


@pytest.mark.long
def test_payloads_are_made_visible_and_colours_stay(shown: dict[str, Capture]) -> None:
    for verb in ("run", "logs"):
        assert "\x1b[32mgreen\x1b[0m" in shown[verb].text
        for number, payload in enumerate(PAYLOADS.values()):
            if payload not in ("\x1b[5A", "x\r"):  # of progress bars, which hosts' logs leave out
                assert f"<{number:02d}>" in shown[verb].text
    assert r"\x1b]52;c;b3duZWQ=\x07<" in shown["logs"].text
    assert r"\x1b[2J<00>" in shown["keys"].text
    assert shown["keys"].code == 2


@pytest.mark.long
def test_no_payload_reaches_a_page(
    shown: dict[str, Capture], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHER_HOME", str(project.parent / "home"))
    job = Job("evil", LocalSession(isolation="process"))
    from launcher import report

    page = report(job).html
    for html in (job._repr_html_(), page, job.metric_series()._repr_html_()):
        assert obeyed(html) == []
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)


def test_everything_that_a_verb_prints_passes_one_door(capsys: pytest.CaptureFixture[str]) -> None:
    """click.echo and print are called only where no text of others is printed, or by the door."""
    echo("\x1b[2Jx")
    assert capsys.readouterr().out == "\\x1b[2Jx\n"
    verbs = Path(__file__).parents[2] / "launcher" / "client" / "cli"
    calling = {
        path.name
        for path in verbs.rglob("*.py")
        if re.search(r"\bclick\.echo\(|^\s*print\(", path.read_text(), re.MULTILINE)
    }
    assert calling == DIRECT.keys()


#: Files of the command line that write directly, and why they may.
DIRECT = {
    "verb_output.py": "it is the door, and JSON escapes every control character",
    "live_view.py": "its callers pass printable text; it draws with the cursor",
    "download_output.py": "a progress bar of a file that Launcher names",
    "completion.py": "a script of click's",
    "check_output.py": "Launcher's own schema",
    "endpoint.py": "variables that Launcher has made",
}

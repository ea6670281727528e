"""Each of twenty failures is shown once: its cause, its host, and what to try."""

import re
from html import unescape
from pathlib import Path

import pytest
from planted_failures import PLANTED, table


def shown_by(terminal, case):
    job = terminal.write(case.train, case.job)
    for name, text in case.files.items():
        (terminal.folder / name).parent.mkdir(exist_ok=True)
        (terminal.folder / name).write_text(text)
    return terminal("run", job, "--local", "--name", "job-1")


def test_there_are_twenty_and_the_docs_have_each():
    assert len(PLANTED) == 20
    page = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
    assert table() in unescape(page.read_text())


@pytest.mark.long
@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)
def test_a_planted_failure_is_shown_once_with_its_host_and_what_to_try(terminal, case):
    result = shown_by(terminal, case)
    assert result.exit_code == 1
    (cause,) = re.findall(r"^Cause    (.*)$", result.stdout, re.MULTILINE)
    where, _, text = cause.partition(": ") if case.host else ("", "", cause)
    assert where == case.host
    assert case.cause in text
    below = result.stdout[result.stdout.index("\nCause") :].splitlines()[1:]
    assert len(below) <= 18
    assert case.once in cause
    talk = [line for line in result.stderr.splitlines() if " | " not in line]  # not the programs'
    assert case.once not in "\n".join(talk) + result.stdout.replace(cause, "", 1)
    attempts = [line[9:] for line in below[[line[:3] for line in below].index("Try") :]]
    assert attempts[-1].startswith("launcher logs job-1")
    assert len(attempts) == (1 if case.fix is None else 2)
    assert case.fix is None or case.fix in attempts[0]
    assert "/launcher/" not in "\n".join(below), "no frames of ours"

"""A job that fails has one cause, which each verb and page shows, with its host and what to try."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from failing_jobs import OTHERS, TWENTY, table
from shown_pages import shown_page

from launcher.client.jobs import Job
from launcher.client.sessions import LocalSession

CASES = [
    *(pytest.param(case, id=name, marks=pytest.mark.long) for name, case in TWENTY.items()),
    *(pytest.param(case, id=name) for name, case in OTHERS.items()),
]


def test_there_are_twenty_and_the_docs_have_each():
    assert len(TWENTY) == 20
    page = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
    assert table() in unescape(page.read_text())


@pytest.mark.parametrize("case", CASES)
def test_a_failure_has_one_cause_on_every_screen(terminal, case):
    job = terminal.write(case.train, case.job)
    for name, text in case.files.items():
        (terminal.folder / name).parent.mkdir(exist_ok=True)
        (terminal.folder / name).write_text(text)
    result = terminal("run", job, "--local", "--name", "job-1")

    assert result.exit_code == 1
    (headline,) = re.findall(r"^Cause    (.*)$", result.stdout, re.MULTILINE)
    where, _, cause = headline.partition(": ")
    assert where == case.host
    assert case.cause in cause
    below = result.stdout[result.stdout.index("\nCause") :].splitlines()[1:]
    assert len(below) <= 18
    talk = [line for line in result.stderr.splitlines() if " | " not in line]  # not the programs'
    once = case.cause if case.once is None else case.once
    if once:
        assert once in cause
        assert once not in "\n".join(talk) + result.stdout.replace(headline, "", 1)
    attempts = [line[9:] for line in below[[line[:3] for line in below].index("Try") :]]
    assert attempts[-1].startswith("launcher logs job-1")
    assert len(attempts) == (1 if case.fix is None else 2)
    assert case.fix is None or case.fix in attempts[0]
    assert "/launcher/" not in "\n".join(below), "no frames of ours"

    status = json.loads(terminal("status", "job-1", "-o", "json").stdout)["failure"]
    assert (status["host"], status["cause"]) == (where.partition(" ")[0], cause)
    brief = case.brief or headline
    place, _, reason = brief.partition(": ")
    listed = terminal("list").stdout
    assert reason[:59] in listed
    assert f"({place.partition(' ')[0]})" in listed
    page = terminal.folder / "job-1.html"
    assert terminal("report", "job-1", "--out", page).exit_code == 0
    (card,) = (
        each for each in shown_page(page.read_text())["cards"] if each["label"] == "Why it failed"
    )
    assert card["value"] == headline
    found = Job("job-1", LocalSession(terminal.home))
    assert brief in unescape(found._repr_html_())
    assert found.failure().headline == headline

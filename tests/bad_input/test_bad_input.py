"""Wrong input is refused at the door with what, where and how to mend it; and nothing is created.

docs/bad-input.md is the table of these refusals. After a change that is meant, renew it with
UPDATE_GOLDEN=1, and read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bad_cases import FILES, Case, all_cases
from bad_doors import BAD, Door, Refused

PAGE = Path(__file__).parents[2] / "docs" / "bad-input.md"
CASES = {case.name: case for case in all_cases()}
HEAD = """\
# What is refused, and how to mend it

Every wrong input is refused at the door, before anything is created: no job, no upload, no process.
All problems of a job are told at once, each with its place. This page is written by
`UPDATE_GOLDEN=1 python -m pytest tests/bad_input`, which puts each of these to Launcher.
"""
TITLES = "| rule | input | message | how to mend |\n|---|---|---|---|"


@dataclass(frozen=True, kw_only=True)
class Told:
    """One problem of a refusal."""

    what: str
    where: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a door said to one wrong input, and what it left behind."""

    told: tuple[Told, ...]
    left_files: frozenset[str]
    left_processes: tuple[str, ...]


class Outcomes(dict[str, Outcome]):
    """Every case, put to its door once, when its outcome is first asked for.

    So the processes among which pytest-xdist divides the tests do not each put all of them.
    """

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders

    def __missing__(self, name: str) -> Outcome:
        self[name] = put(CASES[name], self._folders.mktemp("case"))
        return self[name]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return Outcomes(tmp_path_factory)


def put(case: Case, root: Path) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        door = Door(root, patch)
        try:
            case.put(door)
        except Refused as refusal:
            text = str(refusal)
        else:
            raise AssertionError(f"{case.name} was accepted")
        left = set(door.files().items()) ^ set(door.start.items())
    return Outcome(
        told=tuple(_told(_without_places(text, door))),
        left_files=frozenset(path for path, _ in left),
        left_processes=tuple(_processes_mentioning(str(root))),
    )


def _without_places(text: str, door: Door) -> str:
    """The text without what differs from run to run."""
    for place, name in ((door.folder, "~/job"), (door.home, "~/.launcher")):
        text = text.replace(str(place), name)
    return text


def _told(text: str) -> Iterator[Told]:
    """The problems of an error's text; one that has no parts is all `what`."""
    lines = [line for line in text.splitlines() if not line.startswith("warning: ")]
    starts = [n for n, line in enumerate(lines) if line.startswith("error: ")] or [0]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        parts = {"what": lines[start].removeprefix("error: "), "where": "", "fix": ""}
        for line in lines[start + 1 : end]:
            key, _, value = line.strip().partition(": ")
            if key == "or":
                key, value = "fix", f"{parts['fix']}; or {value}"
            assert key in parts, f"{line!r} is no part of a problem"
            parts[key] = value
        yield Told(**parts)


def _processes_mentioning(text: str) -> Iterator[str]:
    """Command lines of living processes that have a text in them or in their environment."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                if text.encode() in command + (entry / "environ").read_bytes():
                    yield command.replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended, or is another user's


def _page(outcomes: Outcomes) -> str:
    sections: dict[str, list[str]] = {}
    for name, case in CASES.items():
        sections.setdefault(case.section, []).extend(_rows(case, outcomes[name]))
    parts = [f"## {section}\n\n{TITLES}\n" + "\n".join(rows) for section, rows in sections.items()]
    return "\n".join([HEAD, *(f"{part}\n" for part in parts)])


def _rows(case: Case, outcome: Outcome) -> list[str]:
    """A line for each problem; the rule and the input stand in the first."""
    heads = [(case.rule, case.shown), *[("", "")] * (len(outcome.told) - 1)]
    return [
        f"| {rule} | {shown} | {_cell(each)} | {_text(each.fix)} |"
        for (rule, shown), each in zip(heads, outcome.told, strict=True)
    ]


def _cell(each: Told) -> str:
    field = each.where.partition("(")[2].rstrip(")")
    return f"{_text(each.what)} (`{field}`)" if field else _text(each.what)


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


@pytest.mark.parametrize("name", CASES)
def test_refused_and_nothing_is_created(name: str, outcomes: Outcomes) -> None:
    outcome = outcomes[name]
    assert outcome.told
    assert all(each.what for each in outcome.told)
    assert outcome.left_files == frozenset()
    assert outcome.left_processes == ()


def test_the_page_has_the_actual_messages(outcomes: Outcomes) -> None:
    made = _page(outcomes)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
    assert made == PAGE.read_text(encoding="utf-8"), "UPDATE_GOLDEN=1 renews the page"


def test_the_page_has_every_wrong_job_of_the_rules() -> None:
    listed = [name for files in FILES.values() for name in files]
    assert sorted(listed) == sorted(path.stem for path in BAD.glob("*.yaml"))
    assert len(CASES) >= 40

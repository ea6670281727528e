"""What the docs' tables promise of an engine when something dies, and whether jobs have kept it."""

from __future__ import annotations

import enum
import functools
import operator
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kill_schedules import SERVICES, KillSchedule, Mode, Victim

if TYPE_CHECKING:
    from kill_jobs import Ended, Played

PAGE = Path(__file__).parents[2] / "docs" / "tensorflow-data.md"
_SECTION = "## What is promised when something dies"


class Promise(enum.Flag):
    """What a cell promises."""

    NONE_LOST = enum.auto()
    NONE_DOUBLED = enum.auto()
    GOES_ON = enum.auto()
    FAILS = enum.auto()


#: What the words of a cell mean.
_WORDS = {
    "exactly once": Promise.NONE_LOST | Promise.NONE_DOUBLED,
    "none lost": Promise.NONE_LOST,
    "none doubled": Promise.NONE_DOUBLED,
    "goes on": Promise.GOES_ON,
    "the job fails": Promise.FAILS,
}
Promises = dict[tuple[Mode, Victim], Promise]


def promises() -> Promises:
    """The promise to each mode about each victim, as the page's two tables give it."""
    ours, tfs = (_rows(table) for table in _tables())
    found: Promises = {}
    for cells in ours:
        for victim in _victims(cells[0]):
            found[Mode.LAUNCHER, victim] = _meaning(cells[1:3])
    for cells in tfs:
        for victim in _victims(cells[0]):
            for mode in (Mode.AUTO, Mode.FILE, Mode.DATA):
                found[mode, victim] = _meaning([cells[1], cells[3]])
            found[Mode.DYNAMIC, victim] = _meaning([cells[2], cells[3]])
    return found


def promise_to(mode: Mode, schedule: KillSchedule, page: Promises) -> Promise:
    """What is promised when all of a schedule's victims die, one after the other: the least."""
    return functools.reduce(operator.and_, (page[mode, kill.victim] for kill in schedule.kills))


def broken(ended: Ended, promised: Sequence[Promise]) -> Iterator[str]:
    """What was promised of the schedules of a job, and not kept."""
    for played, promise in zip(ended.schedules, promised, strict=True):
        for words in _broken(played, promise):
            yield f"schedule {played.schedule.seed}: {words}"
    if set(ended.codes.values()) == {0} or "(data_group): the host died" not in ended.output:
        yield f"the job did not fail with its host: {ended.codes}, {ended.failures}"
    if ended.left:
        yield f"{ended.left} processes were left"


def _broken(played: Played, promise: Promise) -> Iterator[str]:
    if Promise.GOES_ON in promise and not played.went_on:
        yield "the job did not go on"
    if Promise.FAILS in promise and played.went_on:
        yield "the job did not fail"
    if Promise.NONE_LOST in promise and played.lost:
        yield f"{played.lost} elements were lost"
    if Promise.NONE_DOUBLED in promise and played.doubled:
        yield f"{played.doubled} elements were doubled"
    if played.differing:
        yield f"{played.differing} batches are others, or in other places"


def _tables() -> list[list[str]]:
    """The lines of the two tables of the section."""
    section = PAGE.read_text().split(_SECTION, 1)[1].split("\n## ", 1)[0]
    tables = [block for block in section.split("\n\n") if block.startswith("|")]
    ours, tfs = tables
    return [ours.splitlines(), tfs.splitlines()]


def _rows(table: Sequence[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def _victims(cell: str) -> list[Victim]:
    return [victim for victim in (*SERVICES, Victim.HOST) if victim.value in cell.split(", ")]


def _meaning(cells: Sequence[str]) -> Promise:
    text = re.sub(r"none is", "none", " ".join(cells))
    meaning = Promise(0)
    for words, each in _WORDS.items():
        if words in text:
            meaning |= each
    return meaning

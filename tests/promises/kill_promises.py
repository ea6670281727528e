"""What the docs' table promises of an engine when something dies, and whether jobs have kept it."""

from __future__ import annotations

import enum
import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kill_schedules import SERVICES, KillSchedule, Mode, Victim
from promise_page import page_rows

if TYPE_CHECKING:
    from kill_jobs import Ended, Played


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
_SHORT = {each: words for words, each in _WORDS.items() if words != "exactly once"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """The meaning of a row of the table. seconds: for which a rank is blocked at most."""

    promise: Promise
    seconds: float

    def __str__(self) -> str:
        words = [words for each, words in _SHORT.items() if each in self.promise]
        return ", ".join([*words, f"{self.seconds:g} s"])


Promises = dict[tuple[Mode, Victim], Row]


def promises() -> Promises:
    """The promise to each mode about each victim, as the page's table gives it."""
    found: Promises = {}
    for row in page_rows():
        for mode, victim in itertools.product(_modes(row.engine), _victims(row.victims)):
            assert (mode, victim) not in found, f"there are two rows of {mode} and {victim}"
            promise = _meaning(f"{row.elements} {row.outcome}")
            found[mode, victim] = Row(promise=promise, seconds=row.seconds)
    return found


def promise_to(mode: Mode, schedule: KillSchedule, page: Promises) -> Row:
    """What is promised when all of a schedule's victims die, one after the other: the least."""
    rows = [page[mode, kill.victim] for kill in schedule.kills]
    least = functools.reduce(operator.and_, (row.promise for row in rows))
    return Row(promise=least, seconds=sum(row.seconds for row in rows))


def broken(ended: Ended, promised: Sequence[Row]) -> Iterator[str]:
    """What was promised of the schedules of a job, and not kept."""
    for played, row in zip(ended.schedules, promised, strict=True):
        for words in _broken(played, row):
            yield f"schedule {played.schedule.seed}: {words}"
    if set(ended.codes.values()) == {0} or "(data_group): the host died" not in ended.output:
        yield f"the job did not fail with its host: {ended.codes}, {ended.failures}"
    if ended.left:
        yield f"{ended.left} processes were left"


def _broken(played: Played, row: Row) -> Iterator[str]:
    promise = row.promise
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
    if played.blocked > row.seconds:
        yield f"a rank was blocked for {played.blocked:.1f} s, and {row.seconds:g} s is the most"


def _modes(cell: str) -> list[Mode]:
    return [mode for mode in Mode if f"`{mode.value}`" in cell]


def _victims(cell: str) -> list[Victim]:
    return [victim for victim in (*SERVICES, Victim.HOST) if victim.value in cell.split(", ")]


def _meaning(text: str) -> Promise:
    meaning = Promise(0)
    for words, each in _WORDS.items():
        if words in text:
            meaning |= each
    return meaning

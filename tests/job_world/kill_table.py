"""The table of what seeded schedules of kills came to, by engine and victim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from kill_promises import Promise, Row

if TYPE_CHECKING:
    from kill_jobs import Played

#: What was played so far, and what was promised of it.
PLAYED = pytest.StashKey[list["tuple[Played, Row]"]]()
_COLUMNS = ("{:<10}", "{:<16}", "{:>4}", "{:>6}", "{:>11}", "{:>8}", "{:>9}", "{:>7}", "  {}")
_HEAD = ("mode", "killed", "n", "kills", "went on", "lost", "doubled", "s", "promised")
_SHORT = {
    Promise.NONE_LOST: "none lost",
    Promise.NONE_DOUBLED: "none doubled",
    Promise.GOES_ON: "goes on",
    Promise.FAILS: "the job fails",
}


def printed(played: Sequence[tuple[Played, Row]]) -> Iterator[str]:
    """The lines: elements and seconds are the most of any schedule of the row."""
    groups: dict[tuple[str, str, Row], list[Played]] = {}
    for each, row in played:
        key = (each.mode.value, each.schedule.victims, row)
        groups.setdefault(key, []).append(each)
    yield _line(_HEAD)
    for (mode, victims, row), all_of_it in sorted(groups.items(), key=lambda it: it[0][:2]):
        went_on = [each for each in all_of_it if each.went_on]
        yield _line(
            (
                mode,
                victims,
                len(all_of_it),
                sum(each.hit for each in all_of_it),
                f"{len(went_on)} of {len(all_of_it)}",
                max((each.lost for each in went_on), default="-"),
                max(each.doubled for each in all_of_it),
                f"{max(each.blocked for each in all_of_it):.1f}",
                ", ".join([*_words(row.promise), f"{row.seconds:g} s"]),
            )
        )


def _words(promise: Promise) -> list[str]:
    return [words for each, words in _SHORT.items() if each in promise]


def _line(cells: Sequence[object]) -> str:
    return " ".join(form.format(cell) for form, cell in zip(_COLUMNS, cells, strict=True))

"""The table of what became of jobs whose data engine lost somebody, by engine and victim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class KillFigures:
    """An epoch in which somebody was killed. blocked: the longest wait of a rank, in seconds."""

    mode: str
    victims: str
    kills: int
    went_on: bool
    lost: int
    doubled: int
    blocked: float
    promised: str


#: What tests have seen so far.
FIGURES = pytest.StashKey[list[KillFigures]]()
_COLUMNS = ("{:<10}", "{:<37}", "{:>4}", "{:>6}", "{:>11}", "{:>8}", "{:>9}", "{:>7}", "  {}")
_HEAD = ("mode", "killed", "n", "kills", "went on", "lost", "doubled", "s", "promised")


def note(config: pytest.Config, *figures: KillFigures) -> None:
    """Keep figures for the table."""
    config.stash.setdefault(FIGURES, []).extend(figures)


def printed(figures: Sequence[KillFigures]) -> Iterator[str]:
    """The lines: elements and seconds are the most of any epoch of the row."""
    groups: dict[tuple[str, str, str], list[KillFigures]] = {}
    for each in figures:
        groups.setdefault((each.mode, each.victims, each.promised), []).append(each)
    yield _line(_HEAD)
    for (mode, victims, promised), all_of_it in sorted(groups.items()):
        went_on = [each for each in all_of_it if each.went_on]
        yield _line(
            (
                mode,
                victims,
                len(all_of_it),
                sum(each.kills for each in all_of_it),
                f"{len(went_on)} of {len(all_of_it)}",
                max((each.lost for each in went_on), default="-"),
                max(each.doubled for each in all_of_it),
                f"{max(each.blocked for each in all_of_it):.1f}",
                promised,
            )
        )


def _line(cells: Sequence[object]) -> str:
    return " ".join(form.format(cell) for form, cell in zip(_COLUMNS, cells, strict=True))

"""What one rank has noted of its life, and what its loader says of it in the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.data.order import ResumePoint
from launcher.shared import parse_event

#: Of the loader's line at the end of an epoch.
COUNTED = ("epoch", "steps", "samples", "pads", "drops", "skipped")


@dataclass(frozen=True, kw_only=True)
class Received:
    """place: where it began. since: in which generation, and after how many of its batches, that
    place was saved. batches: their ids and a hash of their noise. ended: whether it came to its
    end. epochs: what was counted in each epoch that it has read to the end.
    """

    place: ResumePoint | None
    since: tuple[int, int] | None
    batches: tuple[tuple[list[int], str], ...]
    ended: bool
    epochs: tuple[dict[str, int], ...]

    @classmethod
    def read(cls, notes: Path, log: Path) -> Received:
        """A rank that was killed early has noted nothing; a line that it did not finish is none."""
        found = [json.loads(line) for line in _whole_lines(notes)]
        first = found[0] if found else {}
        return cls(
            place=_place(first["place"]) if found else None,
            since=tuple(first["since"]) if first.get("since") else None,
            batches=tuple((note["ids"], note["hash"]) for note in found if "ids" in note),
            ended=any("ended" in note for note in found),
            epochs=tuple(_epochs(log)),
        )


def _whole_lines(path: Path) -> list[str]:
    text = path.read_text(errors="replace") if path.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line[-1] == "\n"]


def _place(state: Mapping[str, Any]) -> ResumePoint:
    """Written as it is in a state; the length that it was saved with is no matter here."""
    return ResumePoint(
        epoch=state["epoch"],
        taken=state.get("taken", 0),
        position=state["position"],
        holes=tuple((start, stop) for start, stop in state.get("holes", ())),
        done=tuple((start, stop) for start, stop in state.get("done", ())),
    )


def _epochs(log: Path) -> list[dict[str, int]]:
    events = (parse_event(line) for line in _whole_lines(log))
    lines = (event[1] for event in events if event and event[0] == "data_epoch")
    return [{name: line.get(name, 0) for name in COUNTED} for line in lines]

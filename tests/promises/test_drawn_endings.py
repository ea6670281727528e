"""A hundred endings of kinds and shapes that a seed draws: truthful, bounded, nothing left.

LAUNCHER_ENDINGS_DRAWN is another number of them, LAUNCHER_ENDINGS_SEED another seed.
"""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest
from drawn_kinds import KINDS, SHAPES, Kind, Shape, ShapedStage, matches
from endings_table import Row
from waiting import wait_until

DRAWN = int(os.environ.get("LAUNCHER_ENDINGS_DRAWN", "100"))
SEED = int(os.environ.get("LAUNCHER_ENDINGS_SEED", "30"))


def drawn() -> list[tuple[Kind, Shape, int]]:
    """(kind, shape, rank); each kind as often as any other, but for the remainder."""
    chance = random.Random(SEED)
    kinds = [kind for _ in range(-(-DRAWN // len(KINDS))) for kind in KINDS]
    chance.shuffle(kinds)
    shapes = [
        chance.choice([shape for shape in SHAPES if shape.train_hosts >= kind.train_hosts])
        for kind in kinds
    ]
    return [
        (kind, shape, chance.randrange(shape.train_hosts))
        for kind, shape in list(zip(kinds, shapes, strict=True))[:DRAWN]
    ]


@pytest.fixture
def shaped(tmp_path: Path) -> ShapedStage:
    return ShapedStage(tmp_path)


def test_at_least_twenty_kinds_are_drawn_for_four_shapes() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 20
    assert len(SHAPES) == 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:2 train hosts, but no distribution")
@pytest.mark.parametrize(
    ("kind", "shape", "who"),
    [
        pytest.param(*each, id=f"{number}, {each[0].name}, {each[1].name}")
        for number, each in enumerate(drawn())
    ],
)
def test_a_drawn_ending(
    shaped: ShapedStage, table: list[Row], kind: Kind, shape: Shape, who: int
) -> None:
    with kind.surroundings(shaped):
        try:
            _run_to_its_end(shaped, table, kind, shape, who)
        finally:
            shaped.clear()


def _run_to_its_end(
    shaped: ShapedStage, table: list[Row], kind: Kind, shape: Shape, who: int
) -> None:
    shape.start(shaped, kind.act, who)
    for rank in range(shape.train_hosts):
        shaped.wait_for_line(f"trains: rank {rank}")
    hurt = time.monotonic()
    if kind.deed:
        kind.deed(shaped)
    else:
        shaped.signal("act")
    wait_until(shaped.is_over, what="the end of the job")
    summary = shaped.job.summary()
    reason = summary["failure_reason"] or ""
    table.append(
        Row(
            cause=kind.name[:12],
            who=f"{shape.name}"[:15],
            status=summary["status"],
            exit_code=str(summary["exit_code"]),
            seconds=f"{time.monotonic() - hurt:.1f}",
            reason=reason,
        )
    )
    lines = "\n".join(f"{line.host} | {line.text}" for line in shaped.job.logs())
    assert re.fullmatch(kind.status, summary["status"]), f"{reason}\n{lines}"
    assert bool(reason) == (summary["status"] == "Failed")
    assert matches(kind, reason), f"{reason}\n{lines}"
    wait_until(lambda: not shaped.traces.remains(), 60, f"nothing left: {shaped.traces.remains()}")

"""Habits of training loops on a model that a pipeline has taken over: exact, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from habits import ENDING  # noqa: E402 - it needs torch
from ranks import noted, run  # noqa: E402

_SCRIPT = """
from habits import ENDING, EXACT, REFUSED, learn

world = parallel.init(pipeline=2, microbatches=2)
"""
_TOGETHER = """
found = {}
for name, habit in list(EXACT.items())[::EACH]:
    try:
        found[name] = learn(world, **habit)
    except ParallelError as error:
        found[name] = str(error)
for name, (habit, words) in list(REFUSED.items())[::EACH]:
    try:
        found[name] = [learn(world, **habit), words]
    except ParallelError as error:
        found[name] = [str(error), words]
note(found)
"""


@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.long), 5])
def test_habits_are_exact_or_refused(tmp_path: Path, each: int) -> None:
    for found in noted(tmp_path, f"{_SCRIPT}\nEACH = {each}\n{_TOGETHER}"):
        wrong = [f"{name}: {each}" for name, each in found.items() if not _is_right(each)]
        assert not wrong, "\n".join(wrong)


def _is_right(found: object) -> bool:
    """Return whether a habit was exact, or refused in the words beside it."""
    if isinstance(found, list):
        return found[1] in str(found[0])
    return isinstance(found, float) and found < 1e-9


@pytest.mark.parametrize("habit", ENDING)
def test_a_habit_that_one_rank_sees_ends_the_run(tmp_path: Path, habit: str) -> None:
    outcome = run(tmp_path, f"{_SCRIPT}\nlearn(world, **ENDING[{habit!r}][0])\n")
    assert outcome.code != 0
    assert f"ParallelError: {ENDING[habit][1]}" in outcome.output

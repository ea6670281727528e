"""What any number of stages, replicas and shards has saved, any other goes on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ranks import noted

pytest.importorskip("torch")

from learner import KINDS

_PATIENCE = 1500  # seconds, for all kinds in one start
_SCRIPT = """
from learner import KINDS, Learner

def go_on(learner):
    found = list(itertools.islice(learner.learn(), STEPS))
    return [[loss for loss, _ in found], [ids for _, ids in found], learner.squares()]

parallel.init()
root, found = pathlib.Path(os.environ["ROOT"]), {}
for name in NAMES:
    for saved in SAVED:
        learner = Learner(KINDS[name], root / saved)
        assert learner.checkpoints.load(learner.state) == 4
        found[f"{saved} -> {name}"] = go_on(learner)
        learner.checkpoints.close()
    if not SAVED:
        learner = Learner(KINDS[name], root / name)
        for _ in itertools.islice(learner.learn(), 4):
            pass
        learner.checkpoints.save(4, learner.state)
        found[name] = go_on(learner)
        learner.checkpoints.close()
note(found)
"""


def _run(
    root: Path, names: Sequence[str], steps: int, saved: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Each kind's further steps, after it has saved its state or loaded those of others."""
    found = {}
    for ranks in sorted({KINDS[name].ranks for name in names}):
        here = [name for name in names if KINDS[name].ranks == ranks]
        script = f"NAMES, SAVED, STEPS = {here!r}, {list(saved)!r}, {steps}\n{_SCRIPT}"
        folder = root / ("loads" if saved else "saves")
        notes = noted(folder, script, ranks=ranks, patience=_PATIENCE, ROOT=str(root))
        found |= {name: _whole(notes, name) for name in notes[0]}
    return found


def _whole(notes: list[Any], name: str) -> dict[str, Any]:
    """Of a run on all ranks: each step's mean loss and its samples, and all parameters."""
    per_rank = [each[name] for each in notes]
    losses = [sum(each) / len(per_rank) for each in zip(*(r[0] for r in per_rank), strict=True)]
    ids = [sorted(set().union(*step)) for step in zip(*(r[1] for r in per_rank), strict=True)]
    squares = {name: value for _, _, each in per_rank for name, value in each.items()}
    return {"losses": losses, "ids": ids, "squares": squares}


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        pytest.param(
            ["2 x 2", "2 x 2, shards of 2", "1 x 4, shards of 2", "1 x 4"],
            2,
            id="shards",
            marks=pytest.mark.long,
        ),
        pytest.param(["1 x 1", "2 x 1"], 2, id="stages", marks=pytest.mark.long),
        # Alone: hundreds of idle groups' threads take turns.
        pytest.param(
            list(KINDS),
            5,
            id="all",
            marks=[pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(5400)],
        ),
    ],
)
def test_all_degrees_resume_from_all_degrees(tmp_path: Path, names: list[str], steps: int) -> None:
    """Losses to 2e-7 relative, one step of float32, in which a pipeline tells them; parameters,
    which are float64, to 1e-10: other degrees add gradients in another order.
    """
    undisturbed = _run(tmp_path, names, steps)
    resumed = _run(tmp_path, names, steps, saved=names)
    assert len(resumed) == len(names) ** 2
    for pair, mine in resumed.items():
        theirs = undisturbed[pair.split(" -> ")[0]]
        assert mine["ids"] == theirs["ids"], pair
        assert mine["losses"] == pytest.approx(theirs["losses"], rel=2e-7), pair
        assert len(set(mine["losses"])) == steps
        for name in mine["squares"].keys() & theirs["squares"].keys():
            assert mine["squares"][name] == pytest.approx(theirs["squares"][name], rel=1e-10), pair
        assert "unused.weight" in mine["squares"]

"""What any number of stages and replicas has saved, any other goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ranks import run

pytest.importorskip("torch")

from learner import KINDS

# Alone: the checkpoints are saved once then, and hundreds of idle groups' threads take turns.
pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(1800)]

_RANKS = (1, 2, 4, 8, 16)
_PATIENCE = 1500  # seconds, for all kinds in one start
_PREAMBLE = f"""
import itertools
sys.path.append({str(Path(__file__).parent)!r})
from learner import KINDS, Learner

def five(learner):
    found = list(itertools.islice(learner.learn(), 5))
    return [[loss for loss, _ in found], [ids for _, ids in found], learner.squares()]

parallel.init()
kinds = {{name: kind for name, kind in KINDS.items() if kind.ranks == parallel.size()}}
root, found = pathlib.Path(os.environ["ROOT"]), {{}}
"""

_SAVE = """
for name, kind in kinds.items():
    learner = Learner(kind, root / name)
    for _ in itertools.islice(learner.learn(), 4):
        pass
    learner.checkpoints.save(4, learner.state)
    found[name] = five(learner)
    learner.checkpoints.close()
note(found)
parallel.leave()
"""

_LOAD = """
for name, kind in kinds.items():
    for saved in KINDS:
        learner = Learner(kind, root / saved)
        assert learner.checkpoints.load(learner.state) == 4
        found[f"{saved} -> {name}"] = five(learner)
        learner.checkpoints.close()
note(found)
parallel.leave()
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Checkpoints of all kinds of degrees, and how they went on undisturbed."""
    root, found = tmp_path_factory.mktemp("checkpoints"), {}
    for ranks in _RANKS:
        outcome = run(root, _PREAMBLE + _SAVE, ranks=ranks, patience=_PATIENCE, ROOT=str(root))
        assert outcome.code == 0, outcome.output
        found |= {name: _whole(outcome.notes, name) for name in outcome.notes[0]}
    return root, found


def _whole(notes: Mapping[int, Any], name: str) -> dict[str, Any]:
    """Of a run on all ranks: each step's mean loss and its samples, and all parameters."""
    per_rank = [notes[rank][name] for rank in sorted(notes)]
    losses = [sum(each) / len(per_rank) for each in zip(*(r[0] for r in per_rank), strict=True)]
    ids = [sorted(set().union(*step)) for step in zip(*(r[1] for r in per_rank), strict=True)]
    squares = {name: value for _, _, each in per_rank for name, value in each.items()}
    return {"losses": losses, "ids": ids, "squares": squares}


@pytest.mark.parametrize("ranks", _RANKS)
def test_all_degrees_resume_from_all_degrees(
    tmp_path: Path, saved: tuple[Path, dict[str, Any]], ranks: int
) -> None:
    """Losses to 2e-7 relative, one step of float32, in which a pipeline tells them; parameters,
    which are float64, to 1e-10: other degrees add gradients in another order.
    """
    root, undisturbed = saved
    outcome = run(tmp_path, _PREAMBLE + _LOAD, ranks=ranks, patience=_PATIENCE, ROOT=str(root))
    assert outcome.code == 0, outcome.output
    pairs = list(outcome.notes[0])
    assert len(pairs) == len(KINDS) * sum(kind.ranks == ranks for kind in KINDS.values())
    worst = {}
    for pair in pairs:
        theirs, mine = undisturbed[pair.split(" -> ")[0]], _whole(outcome.notes, pair)
        assert mine["ids"] == theirs["ids"], pair
        assert mine["losses"] == pytest.approx(theirs["losses"], rel=2e-7), pair
        assert len(set(mine["losses"])) == 5
        for name in mine["squares"].keys() & theirs["squares"].keys():
            assert mine["squares"][name] == pytest.approx(theirs["squares"][name], rel=1e-10)
        assert "unused.weight" in mine["squares"]
        worst[pair] = max(
            abs(a - b) / abs(b) for a, b in zip(mine["losses"], theirs["losses"], strict=True)
        )
    print(json.dumps(worst, indent=1))

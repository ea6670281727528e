"""A rank that is killed, also while a checkpoint is written, costs time and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ranks import noted

pytest.importorskip("torch")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_STEPS, _EVERY = 21, 3
_PATIENCE = 800  # seconds, for five starts
_TRAINING = f"""
import itertools, signal
from learner import KINDS, Learner

STEPS, EVERY = {_STEPS}, {_EVERY}
root, start = pathlib.Path(os.environ["ROOT"]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
victim, place, at = (json.loads(os.environ["KILLS"]) + [[-1, "", 0]])[start]

def write(name, words):
    with (root / name).open("a") as file:
        file.write(json.dumps(words) + "\\n")

def die(**words):
    write("kills", {{"start": start, "rank": victim, "place": place, "at": at, **words}})
    os.kill(os.getpid(), signal.SIGKILL)

flush = os.fsync
def flush_or_die(file):
    '''Files of a checkpoint are flushed one by one: a kill after one is a kill between two.'''
    flush(file)
    path = pathlib.Path(os.readlink(f"/proc/self/fd/{{file}}"))
    if parallel.rank() == victim and path.parent.name == f"step-{{at}}" and place in path.name:
        die(flushed=path.name, files=sorted(each.name for each in path.parent.iterdir()))
os.fsync = flush_or_die

parallel.init()
learner = Learner(KINDS[os.environ["KIND"]], root / "checkpoints", dropout=0.3)
first = learner.checkpoints.load(learner.state) or 0
write(f"starts-{{parallel.rank()}}", [start, first])
steps = itertools.islice(learner.learn(), STEPS - first)
for step, (loss, ids) in enumerate(steps, start=first + 1):
    write(f"steps-{{parallel.rank()}}", [start, step, loss, ids])
    if step % EVERY == 0:
        learner.checkpoints.save(step, learner.state)
    if parallel.rank() == victim and place == "training" and step == at:
        die()
learner.checkpoints.close()
note([start, learner.squares()])
"""

#: Each a rank, where it is killed, and at which step: in training, or in the save of that step
#: right after a rank's data, the index, or the manifest before it has its name was written.
_PLANS: list[tuple[str, list[tuple[int, str, int]]]] = [
    ("2 x 1", [(1, "__1_0", 3), (0, "training", 8), (0, ".metadata", 9), (1, "training", 16)]),
    ("2 x 1", [(0, "__0_0", 6), (0, "manifest", 6), (1, "training", 10), (1, "__1_0", 15)]),
    ("1 x 2", [(0, "training", 4), (1, "__1_0", 6), (0, "manifest", 12), (1, "training", 20)]),
    ("1 x 2", [(0, ".metadata", 3), (0, "__0_0", 9), (0, "training", 14), (1, "__1_0", 18)]),
    (
        "sharded over 2",
        [(1, "__1_0", 6), (1, "training", 11), (0, "manifest", 12), (0, "training", 17)],
    ),
]


def _train(folder: Path, kind: str, kills: list[tuple[int, str, int]]) -> dict[str, Any]:
    """What all starts of a training wrote, and the parameters at its end."""
    folder.mkdir()
    variables = {"ROOT": str(folder), "KIND": kind, "KILLS": json.dumps(kills)}
    notes = noted(folder, _TRAINING, restarts=len(kills), patience=_PATIENCE, **variables)
    assert [start for start, _ in notes] == [len(kills)] * 2

    def lines(name: str) -> list[Any]:
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]

    return {
        "kills": lines("kills") if kills else [],
        "starts": lines("starts-0"),
        "steps": [lines(f"steps-{rank}") for rank in (0, 1)],
        "squares": [notes[rank][1] for rank in (0, 1)],
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same trainings without kills, by kind."""
    folder = tmp_path_factory.mktemp("undisturbed")
    kinds = sorted({kind for kind, _ in _PLANS})
    return {kind: _train(folder / kind, kind, []) for kind in kinds}


@pytest.mark.parametrize("plan", range(len(_PLANS)))
def test_a_killed_rank_changes_nothing_of_what_is_learned(
    tmp_path: Path, undisturbed: dict[str, Any], plan: int
) -> None:
    """Losses, samples and parameters to the bit: the degrees are the same."""
    kind, kills = _PLANS[plan]
    found, expected = _train(tmp_path / "killed", kind, kills), undisturbed[kind]
    assert [(each["rank"], each["place"], each["at"]) for each in found["kills"]] == kills
    for kill in found["kills"]:
        if kill["place"] != "training":
            assert kill["flushed"] in kill["files"]
            assert "manifest.json" not in kill["files"]
    for rank in (0, 1):
        right = {step: (loss, ids) for _, step, loss, ids in expected["steps"][rank]}
        assert sorted(right) == list(range(1, _STEPS + 1))
        for start, step, loss, ids in found["steps"][rank]:
            assert (loss, ids) == right[step], f"step {step} of start {start}"
        assert found["steps"][rank][-1][1] == _STEPS
    assert found["squares"] == expected["squares"]
    assert len(found["starts"]) == len(kills) + 1
    for (_, place, at), (_, first) in zip(kills, found["starts"][1:], strict=True):
        # A save that was cut off never counts, and the one before it still does.
        assert first == at - _EVERY if place != "training" else at - 2 * _EVERY <= first <= at
    print(json.dumps({"kills": found["kills"], "began at": found["starts"]}))

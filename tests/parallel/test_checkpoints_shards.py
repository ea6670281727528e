"""A checkpoint of sharded stages is loaded with another shard degree, and the reverse."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run

pytest.importorskip("torch")

from learner import KINDS

_SCRIPT = f"""
import itertools
sys.path.append({str(Path(__file__).parent)!r})
from learner import KINDS, Learner

def steps(learner, count):
    losses = [loss for loss, _ in itertools.islice(learner.learn(), count)]
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total)
    return total.tolist(), learner.squares()

parallel.init()
root, found = pathlib.Path(os.environ["ROOT"]), {{}}
for name in NAMES:
    learner = Learner(KINDS[name], root / name)
    steps(learner, 3)
    learner.checkpoints.save(3, learner.state)
    found[name] = steps(learner, 2)
    learner.checkpoints.close()
for saved, name in itertools.product(NAMES, NAMES):
    if KINDS[saved].shard_degree != KINDS[name].shard_degree:
        learner = Learner(KINDS[name], root / saved)
        assert learner.checkpoints.load(learner.state) == 3
        found[f"{{saved}} -> {{name}}"] = steps(learner, 2)
        learner.checkpoints.close()
note(found)
parallel.leave()
"""
_NAMES = ["2 x 2", "2 x 2, shards of 2", "1 x 4, shards of 2", "1 x 4"]


@pytest.mark.long
def test_shard_degrees_load_each_others_checkpoints(tmp_path: Path) -> None:
    """Losses to 2e-7 relative, one step of float32, in which a pipeline tells them."""
    script = f"NAMES = {_NAMES!r}\n{_SCRIPT}"
    outcome = run(tmp_path, script, ranks=4, ROOT=str(tmp_path / "checkpoints"))
    assert outcome.code == 0, outcome.output
    assert KINDS[_NAMES[1]].shard_degree == KINDS[_NAMES[2]].shard_degree == 2
    undisturbed = {}
    for notes in outcome.notes.values():
        for name in _NAMES:
            undisturbed.setdefault(name, {}).update(notes[name][1])
    for notes in outcome.notes.values():
        pairs = [name for name in notes if "->" in name]
        assert len(pairs) == 8
        for pair in pairs:
            saved = pair.split(" -> ")[0]
            losses, squares = notes[pair]
            assert losses == pytest.approx(notes[saved][0], rel=2e-7), pair
            for name in squares.keys() & undisturbed[saved].keys():
                assert squares[name] == pytest.approx(undisturbed[saved][name], rel=1e-10), pair
            assert "tokens.weight" in undisturbed[saved]

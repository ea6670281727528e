"""A rank is killed while the others wait for it; the job that is started again goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tasks import TASK, alone, furthest, run

pytest.importorskip("torch")

#: Rank 1 kills itself in the second epoch, once the first one's checkpoint is there.
_KILLED = (
    TASK
    + """
import os, pathlib, signal, sys
sys.path.append(os.environ["TESTS"])
from waiting import wait_until

calls = 0
plain = loss

def loss(output, target):
    global calls
    calls += 1
    marker = pathlib.Path("killed")
    if os.environ["RANK"] == "1" and calls == int(os.environ["CALL"]) and not marker.exists():
        folder = pathlib.Path(os.environ["LAUNCHER_CHECKPOINT_DIR"], "step-5")
        wait_until(lambda: list(folder.glob("*.json")))
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(output, target)
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "call"),
    [({}, 10), ({"partitions": 2, "microbatches": 2, "starts": ["layers.1"]}, 24)],
    ids=["two replicas", "two stages"],
)
def test_a_job_that_is_started_again_learns_the_same(
    make: Callable[..., Any], tmp_path: Path, way: dict[str, Any], call: int
) -> None:
    variables = {
        "LAUNCHER_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "CALL": str(call),
        "TESTS": str(Path(__file__).parents[1] / "kit"),
    }
    killed = run(tmp_path, ranks=2, task=_KILLED, parallel=way, **variables)
    assert killed.code != 0
    assert (killed.folder / "killed").exists(), killed.output
    resumed = run(tmp_path, ranks=2, task=_KILLED, parallel=way, **variables)
    assert resumed.code == 0, resumed.output
    (loaded,) = resumed.events("checkpoint_loaded")
    assert loaded["step"] == 5
    weights, _ = alone(make())
    assert furthest(weights, resumed.weights()) <= 1e-10

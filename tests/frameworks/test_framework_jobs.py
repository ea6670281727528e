"""The frameworks' examples as jobs: the same losses with and without a data group."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from completed_run import completed_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks"
EPOCHS = 2

#: The epochs of the test set: Lightning's sanity check reads a part of epoch 0 before.
TEST_EPOCHS = {"lightning": [0, 0, 1], "accelerate": [0], "transformers": [0, 1]}


def run(job: str, framework: str, home: Path) -> tuple[dict[str, Any], str]:
    """Run an example; the outcome, and the log."""
    changes = {"entry_point": f"train_{framework}.py", "hyperparameters.epochs": str(EPOCHS)}
    options = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    return completed_run(EXAMPLE / job, home, *options)


def losses(log: str) -> list[str]:
    return re.findall(r"epoch=\d+ train_loss=[0-9.]+", log)


def epochs_read(log: str, stream: str) -> list[int]:
    found = re.findall(rf"data_epoch rank=0 stream={stream} epoch=(\d+)", log)
    return [int(epoch) for epoch in found]


@pytest.mark.parametrize("framework", TEST_EPOCHS)
def test_losses_are_the_same_with_and_without_a_data_group(framework: str, tmp_path: Path) -> None:
    if find_spec(framework) is None or find_spec("sklearn") is None:
        pytest.skip("needs the extras 'examples' and 'frameworks'")
    served, log = run("job.yaml", framework, tmp_path)
    alone, log_alone = run("job-homogeneous.yaml", framework, tmp_path)
    assert len(losses(log)) == EPOCHS
    assert losses(log) == losses(log_alone)
    assert served["metrics"] == alone["metrics"]
    for each in (log, log_alone):
        assert sorted(epochs_read(each, "pipeline:train_set")) == list(range(EPOCHS))
        assert sorted(epochs_read(each, "pipeline:test_set")) == TEST_EPOCHS[framework]

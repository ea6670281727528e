"""nanoGPT, with tied weights and the loss in its forward pass, learns what one process does."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from nano_gpt import ZOO
from zoo_learning import learn


@pytest.mark.long
@pytest.mark.parametrize(
    ("stages", "replicas"),
    [
        (2, 1),
        pytest.param(3, 1, marks=pytest.mark.slow),
        pytest.param(2, 2, marks=pytest.mark.slow),
    ],
)
def test_nano_gpt_learns_what_one_process_does(tmp_path: Path, stages: int, replicas: int) -> None:
    rows = learn(tmp_path, "nano_gpt", list(ZOO), stages=stages, replicas=replicas)
    assert all(row.is_exact for row in rows)

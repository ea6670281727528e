"""A folder with a dataset and a task, as a job has them, for this process too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tasks import PIPELINE, TASK


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """The function that makes the task. This process is the only rank."""
    pytest.importorskip("torch")
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.syspath_prepend(str(tmp_path))
    import task

    yield task.make
    for name in ("task", "pipeline"):
        sys.modules.pop(name, None)

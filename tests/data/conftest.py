"""What tests of loaders share: modules of datasets, and processes that prepare batches."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WriteModule = Callable[[str], str]
Prepare = Callable[[dict[str, object], int], list[dict[str, Any]]]


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteModule:
    """Writes modules, each of a name of its own, since Python imports a name once."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)

    def write(source: str) -> str:
        digest = hashlib.sha256(f"{tmp_path} {source}".encode()).hexdigest()
        name = f"own_{digest[:12]}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.fixture(scope="module")
def prepare() -> Iterator[Prepare]:
    """Lets two processes prepare the first batches of a stream, each in an order of its own."""
    workers = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("stream_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        for _ in range(2)
    ]

    def ask(spec: dict[str, object], count: int) -> list[dict[str, Any]]:
        steps = list(range(count))
        for worker, order in zip(
            workers, (steps, [steps[-1], *steps[1::-1], *steps[2:-1]]), strict=True
        ):
            print(json.dumps({"spec": spec, "steps": order}), file=worker.stdin, flush=True)
        return [json.loads(worker.stdout.readline()) for worker in workers if worker.stdout]

    yield ask
    for worker in workers:
        worker.communicate()

"""The character GPT learns, on ranks that share it in seven ways."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from completed_run import completed_run
from tasks import REPOSITORY, lines

torch = pytest.importorskip("torch")

from launcher import parallel  # noqa: E402 - it needs torch
from launcher.trainers import make_task, train  # noqa: E402

GPT = REPOSITORY / "examples" / "gpt"
JOBS = (
    "data-parallel",
    "sharded",
    "pipeline-simple",
    "pipeline-interleaved",
    "pipeline-measured",
    "hybrid",
    "hybrid-sharded",
)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(GPT))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    for name in ("task", "model", "pipeline"):
        sys.modules.pop(name, None)
    if torch.distributed.is_initialized():
        parallel.leave()


def test_a_small_one_learns_here(
    example: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task("task:make", {"epochs": 1, "width": 16, "layers": 1, "lr": 0.02})
    train(task, tmp_path)
    told = capsys.readouterr().err
    first, *_ = lines(told, "train_step")
    (last,) = lines(told, "evaluation")
    assert last["validation_loss"] < 3.5 < first["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_the_loss_falls_in_each_way(job: str, tmp_path: Path) -> None:
    epochs = ("--set", "hyperparameters.epochs=2")
    metrics = completed_run(GPT / f"{job}.yaml", tmp_path, *epochs)[0]["metrics"]
    assert metrics["validation_loss"] < 3.2
    assert metrics["validation_accuracy"] > 0.15

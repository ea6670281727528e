"""examples/gpt/partition.ipynb, executed from its first cell to its last as Jupyter would."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

GPT = Path(__file__).parents[2] / "examples" / "gpt"
#: The larger model, and one that is estimated in a third of the time.
LARGE, LESS = '"layers": 24', '"layers": 8'


@pytest.mark.long
def test_a_model_is_cut_and_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    folder = tmp_path / "gpt"
    shutil.copytree(GPT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    notebook = nbformat.read(GPT / "partition.ipynb", as_version=4)
    _, _, _, estimated, *_ = notebook.cells
    assert LARGE in estimated.source
    estimated.source = estimated.source.replace(LARGE, LESS)
    client = NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute()
    _, speed, _, memory, _, job = notebook.cells
    for cell, stages in ((speed, 2), (memory, 4)):
        (html,) = (each.data["text/html"] for each in cell.outputs if "data" in each)
        assert html.count("<svg") == 1
        assert html.count("rank ") >= stages
    assert "Completed" in str(job.outputs[-1])
    assert "train_loss" in str(job.outputs[-1])

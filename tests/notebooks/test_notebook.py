"""examples/notebook.ipynb, executed from its first cell to its last as Jupyter would."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples(tmp_path, monkeypatch):
    """A copy of the folder, and a home of its own."""
    for name in ("torch", "sklearn"):
        pytest.importorskip(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_HOME", raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "examples"
    shutil.copytree(
        EXAMPLES, folder, ignore=shutil.ignore_patterns("data", "data-*", "__pycache__")
    )
    return folder


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_notebook_runs(examples):
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": examples}}
    )
    client.execute()
    outputs = [str(output) for cell in notebook.cells for output in cell.get("outputs", [])]
    here, through_the_api = re.findall(r"'test_accuracy': (0\.\d+)", " ".join(outputs))
    assert here == through_the_api
    assert float(here) > 0.8
    assert (examples / "results" / "model.tar.gz").exists()

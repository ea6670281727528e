"""A notebook shows plans, diagnoses, reports and comparisons, which load nothing."""

from __future__ import annotations

import html
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from shown_pages import shown_page

#: Jobs that ran on this machine, with all they left behind.
RAN = Path(__file__).parents[1] / "compatibility" / "a405acd" / "home"
WORKLOAD = """\
Workload(
    batch_size=256,
    cpu_seconds_per_sample=Measure(mean=0.02, low=0.019, high=0.021),
    bytes_per_batch=38535168,
    gpu_seconds_per_step={"NVIDIA A10G": Measure(mean=0.45, low=0.44, high=0.47)},
    samples_per_epoch=1281167,
    cpu_speed={"g5": 1, "c5": 0.9},
)
"""
CELLS = (
    "from launcher import compare, diagnose, recommend, report\n"
    "from launcher.client.planning.workloads.workload import Measure\n"
    "from launcher.client.planning.workloads.workload import Workload",
    f"recommend({WORKLOAD})",
    'diagnose("done-job")',
    'report("done-job")',
    'compare("done-job", "task-job")',
)


@pytest.mark.long
def test_each_of_them_is_shown_as_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    shutil.copytree(RAN, home)
    for file in home.rglob("*.json"):
        file.write_text(file.read_text().replace("{HOME}", str(home)))
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": tmp_path}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    plan, found, page, table = (cell.outputs[0].data["text/html"] for cell in cells[1:])

    for word in ("ml.g5.", "ml.c6i."):
        assert word in plan
    assert "Diagnosis" in found
    assert page.startswith("<iframe ")
    document = html.unescape(page.partition('srcdoc="')[2])
    assert shown_page(document)["title"] == "done-job"
    for shown in (plan, found, table):
        assert "<script" not in shown
        assert 'src="' not in shown
        assert 'href="http' not in shown
    assert "price per" in table
    assert "done-job" in cells[3].outputs[0].data["text/plain"]
    assert len(cells[3].outputs[0].data["text/plain"]) < 100

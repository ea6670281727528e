"""docs/from-sdk-v2.md: a pair differs in its imports alone, and Launcher's cells run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.client.endpoint import serve

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
TEXT = "".join((DOCS / page).read_text() for page in ("from-sdk-v2.md", "reference/sdk-v2.md"))
CELLS = re.findall(r"```python\n# (v2|launcher|both)\n(.*?)```", TEXT, re.DOTALL)


def without_imports(cell):
    return [line for line in cell.splitlines() if not re.match(r"(import|from) ", line)]


def test_only_the_imports_change():
    kinds = [kind for kind, _ in CELLS]
    assert kinds.count("both") == 4
    before = CELLS[kinds.index("v2")][1]
    after = CELLS[kinds.index("v2") + 1][1]
    assert without_imports(before) == without_imports(after)
    assert "sagemaker." in before.split("session =")[0]


@pytest.mark.long
def test_the_cells_run(tmp_path):
    pytest.importorskip("torch")
    shutil.copytree(HERE / "porting", tmp_path / "work")
    notebook = "\n".join(cell for kind, cell in CELLS if kind != "v2")
    with serve(tmp_path / "endpoint") as endpoint:
        done = subprocess.run(
            [sys.executable, "-c", notebook],
            cwd=tmp_path / "work",
            env={**endpoint.environment, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=540,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "world=2 loss=" in done.stdout
    assert "world=2 streamed=36.0" in done.stdout
    models = re.findall(
        r"^s3://sagemaker-us-east-1-\d{12}/\S+/output/model.tar.gz$", done.stdout, re.M
    )
    assert len(models) == 2

"""The example of a script for smp: what was changed in it, and that it trains."""

from __future__ import annotations

import difflib
import shutil
import tarfile
from pathlib import Path
from urllib.parse import urlparse

import pytest
from completed_run import completed_run

from launcher import JobSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = EXAMPLES / "smp_port"


def test_only_the_import_differs_from_the_script_for_smp() -> None:
    before, after = (
        (FOLDER / name).read_text().splitlines() for name in ("train_before.py", "train.py")
    )
    changed = [each for each in difflib.ndiff(before, after) if each[0] in "+-"]
    assert changed == [
        "- import smdistributed.modelparallel.torch as smp",
        "+ import launcher.parallel.smp as smp",
    ]


def test_the_job_has_as_many_hosts_as_partitions() -> None:
    spec = JobSpec.from_yaml(FOLDER / "job.yaml")
    assert spec.distribution.partitions == spec.instance_groups[0].instance_count == 2


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [2, 4])
def test_the_job_reaches_its_accuracy(images: Path, tmp_path: Path, hosts: int) -> None:
    torch = pytest.importorskip("torch")
    shutil.copytree(FOLDER, tmp_path / "smp_port", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(images, tmp_path / "digits" / "data")
    changed = f"instance_groups.train_group.instance_count={hosts}"
    job = tmp_path / "smp_port" / "job.yaml"
    summary, _ = completed_run(job, tmp_path / "home", "--set", changed)
    assert summary["metrics"]["test_accuracy"] > 0.9
    with tarfile.open(urlparse(summary["model_artifacts"]).path) as archive:
        found = archive.extractfile("model.pt")
        assert found is not None
        weights = torch.load(found, weights_only=True)
    assert weights["features.0.weight"].shape == (16, 1, 3, 3)
    assert weights["classify.4.weight"].shape == (10, 128)

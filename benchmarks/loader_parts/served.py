"""A local job with one data host and one rank, which measures what is served."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher import DataService, Estimator, InstanceGroup, LocalSession

_BENCHMARKS = Path(__file__).parents[1]
_SCRIPT = """\
from loader_parts.served_rank import main

if __name__ == "__main__":
    main()
"""


def measure_served(workloads: Sequence[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each round, of torch in the rank and of what is served, by workload.

    Raises JobFailed with the job's lines.
    """
    with TemporaryDirectory(prefix="loader-benchmark-") as folder:
        source = Path(folder, "source")
        for part in ("loader_parts", "table"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(_BENCHMARKS / part, source / part, ignore=ignored)
        (source / "train.py").write_text(_SCRIPT)
        (source / "asked.json").write_text(
            json.dumps({"workloads": list(workloads), "rounds": rounds})
        )
        return _run(source, Path(folder))


def _run(source: Path, folder: Path) -> dict[str, dict[str, list[float]]]:
    estimator = Estimator(
        entry_point="train.py",
        source_dir=str(source),
        sagemaker_session=LocalSession(folder / "home", "process"),
        instance_groups=[
            InstanceGroup("data_group", "local", 1),
            InstanceGroup("train_group", "local", 1),
        ],
        data_service=DataService(datasets=["loader_parts.workloads:dataset"]),
        max_run=7200,
    )
    job = estimator.fit(logs=False)
    job.raise_for_status()
    (model,) = [path for path in job.download_artifacts(folder) if path.name == "model.tar.gz"]
    with tarfile.open(model) as archive:
        file = archive.extractfile("served.json")
        assert file is not None  # the rank has written it
        found: dict[str, dict[str, Any]] = json.load(file)
        return found

"""A job on this machine with one data host and one train host, whose script measures something.

The hosts are those of the job world's tests: the client and what it needs are not needed here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.shared import DataPart, JobDocument, Role, TrainerPart
from table.rows import Invalid

_REPOSITORY = Path(__file__).parents[2]
sys.path.append(str(_REPOSITORY / "tests" / "kit"))

from hosts import Hosts, running  # noqa: E402 - where it lives is no package

_SOURCE = Path(__file__).parent / "source"
_ROLES = {"data_group": Role.DATA, "train_group": Role.TRAIN}
_PATIENCE = 150


def run(
    folder: Path,
    script: str,
    settings: Mapping[str, object],
    *,
    dataset: str = "images:dataset",
    workers: int = 6,
) -> Any:
    """Run a script of `source` with its settings; return what it left as result.json.

    workers: of the data host.
    """
    document = JobDocument(
        roles=_ROLES,
        trainer=TrainerPart(entry_point=script, hang_timeout=0),
        data=DataPart(datasets=(dataset,), workers_per_host=workers),
    )
    files = {path.name: path.read_text() for path in _SOURCE.glob("*.py")}
    files["settings.json"] = json.dumps(settings)
    # Where the driver's library is found without ldconfig.
    inherited = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    hosts = Hosts(folder, document, dict.fromkeys(_ROLES, 1), files, environment=inherited, cpus=4)
    (leader,) = hosts.members["train_group"]
    try:
        with running(hosts):
            process = hosts[leader].process
            assert process is not None  # it has been started
            process.wait(_PATIENCE)
    except subprocess.TimeoutExpired as error:
        words = f"{script} took more than {_PATIENCE} s:\n{hosts.output()[-3000:]}"
        raise Invalid(words) from error
    result = hosts[leader].paths.model / "result.json"
    if not result.exists():
        raise Invalid(f"{script} failed:\n{hosts.output()[-3000:]}")
    return json.loads(result.read_text())

"""Jobs that were recorded, and what each is diagnosed to have waited for.

recorded_jobs.tar.xz is a LAUNCHER_HOME of 2026-11-29: the 40 jobs of
tests/planted/verdict_jobs.py, as written then, and jobs of tests/planted/causes.yaml and
further_causes.yaml that had run here, without what no verb reads of an ended job; {HOME} stands
for its path. The jobs of tests/compatibility/a405acd are read beside them.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from launcher.client.cli import main  # the console script's door, as pyproject.toml names it

_RECORDED = Path(__file__).with_suffix(".tar.xz")
_OLD_RELEASE = Path(__file__).parents[1] / "compatibility" / "a405acd" / "home"


def cases() -> Mapping[str, Callable[[Path], Any]]:
    home = Path(os.environ["LAUNCHER_HOME"])
    _unpack(home)
    names = sorted(path.name for path in (home / "jobs").iterdir())
    return {f"job {name}": partial(_answers, name) for name in names}


def _unpack(home: Path) -> None:
    shutil.copytree(_OLD_RELEASE, home)
    with tarfile.open(_RECORDED) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(home)
    for file in home.rglob("*"):
        if file.suffix in (".json", ".log"):
            file.write_text(file.read_text().replace("{HOME}", str(home)))


def _answers(name: str, _: Path) -> Any:
    return {verb: _answer(verb, name) for verb in ("diagnose", "status", "metrics")}


def _answer(verb: str, name: str) -> Any:
    result = CliRunner().invoke(main, [verb, name, "-o", "json"])
    lines = result.stdout.splitlines()
    read = [json.loads(each) for each in lines] if verb == "metrics" else json.loads(result.stdout)
    if evidence := read.get("evidence") if isinstance(read, dict) else None:
        evidence["read_on"] = "{today}"
    return {"exit_code": result.exit_code, "read": read}

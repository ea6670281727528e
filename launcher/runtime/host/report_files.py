"""The JSON files that ranks and torchrun leave for their host, in a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Names the folder of the reports to the processes that write them.
REPORTS_VARIABLE = "LAUNCHER_REPORTS"


def write_report(folder: Path, name: str, report: Mapping[Any, object]) -> None:
    """Write `<name>.json` atomically. Raises OSError."""
    draft = folder / f"{name}.draft"
    draft.write_text(json.dumps(report))
    draft.replace(folder / f"{name}.json")


def read_reports(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """Return the reports whose names match, in the order of their names; [] if there are none."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{pattern}.json"))]

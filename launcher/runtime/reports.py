"""What ranks and torchrun leave for their host: a JSON file each, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The folder of the reports, for those who write them.
REPORTS_VARIABLE = "LAUNCHER_REPORTS"


def write_report(folder: Path, name: str, report: Mapping[Any, object]) -> None:
    """Leave `<name>.json`, which is there whole or not at all. Raises OSError."""
    draft = folder / f"{name}.draft"
    draft.write_text(json.dumps(report))
    draft.replace(folder / f"{name}.json")


def read_reports(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """The reports whose names match, in the order of the names; none where nobody wrote one."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{pattern}.json"))]

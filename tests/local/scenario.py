"""What the scenario programs of this folder share: a folder, a report, or the obstacle to one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from launcher.client.sessions import choose_isolation
from launcher.errors import PlatformError


def print_report(isolation: str, run: Callable[[Path], dict[str, object]]) -> None:
    """Print as JSON what a scenario finds in a folder of its own; or what keeps it from running."""
    try:
        choose_isolation(isolation)
    except PlatformError as error:
        print(json.dumps({"obstacle": str(error)}))
        return
    with tempfile.TemporaryDirectory(prefix="scenario-") as folder:
        print(json.dumps(run(Path(folder))))

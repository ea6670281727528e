"""The settings of a planted job, and work that needs a CPU for so many seconds."""

import json
import time
from pathlib import Path

SETTINGS = json.loads((Path(__file__).parent / "settings.json").read_text())


def burn(seconds: float) -> None:
    """Use this thread's CPU; a slower CPU takes longer, as for any work."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))

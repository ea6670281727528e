"""The whole of a run: its verdict in words, and all its values in JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from table.figures import Figure

_VALID = "(valid run)"


def is_good(figures: Sequence[Figure]) -> bool:
    return not any(figure.verdict == "FAIL" for figure in figures)


def verdict(figures: Sequence[Figure]) -> str:
    """One paragraph: how many targets were met, and whether the run counts."""
    targets = [f for f in figures if f.target is not None and not f.what.endswith(_VALID)]
    missed = [f"{f.row}, {f.what}" for f in targets if f.verdict == "FAIL"]
    absent = sum(f.verdict == "not measured" for f in targets)
    lines = [f"{len(targets) - len(missed) - absent} targets met, {len(missed)} missed, "]
    lines[0] += f"{absent} not measured"
    lines += [f"  missed: {name}" for name in missed]
    lines += [
        f"INVALID RUN: {f.what}: {f.median:.3g}, and it should be {f.target}"
        for f in figures
        if f.what.endswith(_VALID) and f.verdict == "FAIL"
    ]
    return "\n".join(lines)


def to_json(figures: Sequence[Figure], rounds: int) -> str:
    return json.dumps(
        {
            "commit": _git("rev-parse", "HEAD"),
            "changed_files": _git("status", "--porcelain").splitlines(),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "machine": {
                "processor": _processor(),
                "processors": os.cpu_count(),
                "allowed": len(os.sched_getaffinity(0)),
                "memory_gib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30,
                "system": f"{platform.system()} {platform.release()}",
                "python": platform.python_version(),
                "load": os.getloadavg(),
            },
            "rounds": rounds,
            "figures": [figure.to_fields() for figure in figures],
        },
        indent=1,
    )


def _git(*words: str) -> str:
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.rstrip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()

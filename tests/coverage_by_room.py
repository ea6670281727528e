"""Prints the share of lines and branches that the last `make coverage` reached, by room."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

#: Folders that hold rooms; what is not below one of them is a room by the first folder's name.
_HOUSES = ("launcher/client", "launcher/data", "launcher/runtime", "launcher/parallel")
_COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def main() -> None:
    command = [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    rooms: dict[str, Counter[str]] = {}
    for file, found in report["files"].items():
        counts = {name: found["summary"][name] for name in _COUNTS}
        for room in (room_of(Path(file)), "total"):
            rooms.setdefault(room, Counter()).update(counts)
    print(f"{'room':<32}{'lines':>8}{'reached':>9}{'branches':>10}{'reached':>9}")
    for room, counts in sorted(rooms.items(), key=lambda item: (item[0] == "total", item[0])):
        lines, reached, branches, taken = (counts[name] for name in _COUNTS)
        shares = f"{_share(reached, lines):>9}{branches:>10}{_share(taken, branches):>9}"
        print(f"{room:<32}{lines:>8}{shares}")


def room_of(file: Path) -> str:
    """The folder of a house that a file is in, or else the first two folders of its path."""
    parts = file.parts
    for house in _HOUSES:
        if file.is_relative_to(house) and len(parts) > 3:
            return "/".join(parts[:3])
    return "/".join(parts[: min(2, len(parts) - 1)])


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


if __name__ == "__main__":
    main()

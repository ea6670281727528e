"""A host: it starts its ranks, and passes on what they print where it is told so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from launcher.runtime import Output, drain_all

_RANK = "output_relay_parts.rank"


def main(folder: Path, output: str, steps: str, blocks: str, lines_of: Sequence[str]) -> int:
    """Run until the first rank has made its steps; the others end with it."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # as hosts run Python
    outputs, ranks = [], []
    for number, lines in enumerate(lines_of):
        command = [sys.executable, "-m", _RANK, str(folder), str(number), steps, blocks, lines]
        if output == "passed-on":
            outputs.append(Output())
            child = outputs[-1].start(command, environment=environment, folder=Path.cwd())
        else:
            with (folder / f"log-{number}").open("wb") as log:
                child = subprocess.Popen(command, env=environment, stdout=log)
        ranks.append(child)
    first = ranks[0].wait()
    (folder / "over").touch()
    codes = [first, *(rank.wait() for rank in ranks[1:])]
    drain_all(outputs, timeout=10)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:5], sys.argv[5:]))

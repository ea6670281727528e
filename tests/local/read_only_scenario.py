"""A host's read-only file, copied twice to the same place by a user whom modes stop; prints JSON.

A program of its own, for standard library and launcher only, so that any user can run it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from bench import Bench

SCRIPT = """
file = ml / "output" / "data" / "file"
file.write_text("x")
file.chmod(0o400)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), "process")
        bench.start(SCRIPT)
        bench.end_of()
        target, copies = Path(folder) / "copies", []
        target.mkdir()
        for _ in range(2):
            copy = bench.session.copy_from_host("job", "algo-1", "output/data", target)
            copies.append((copy / "file").read_text())
    print(json.dumps({"copies": copies}))


if __name__ == "__main__":
    main()

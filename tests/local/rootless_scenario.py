"""Two hosts in containers of Podman without root's rights; prints what they found as JSON."""

from __future__ import annotations

import os
from pathlib import Path

from bench import Bench
from containers import left_of
from scenario import print_report

MEETS = """
(other,) = set(me["hosts"]) - {host}
server = socket.create_server(("", 6000))
while True:
    try:
        socket.create_connection((other, 6000)).close()
        break
    except OSError:
        time.sleep(0.02)
server.accept()
(ml / "model/mine").write_text("mine")
os.chown(ml / "model/mine", 1234, 1234)
print(json.dumps([os.getuid(), socket.gethostname(), me["network_interface_name"]]))
"""


def run(folder: Path) -> dict[str, object]:
    bench = Bench(folder, "container")
    description = bench.run(MEETS, hosts=2)
    kept = [*bench.job_folder().glob("hosts/*/ml/model/mine"), *bench.output.rglob("*.tar.gz")]
    return {
        "status": description["TrainingJobStatus"],
        "lines": bench.lines(),
        "notes": description["LocalNotes"],
        "owned": {path.name: path.stat().st_uid == os.getuid() for path in kept},
        "left": left_of(bench.job_folder()),
    }


if __name__ == "__main__":
    print_report("container", run)

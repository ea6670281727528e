"""A sandboxed job on two hosts, and one that is stopped; prints what was found as JSON.

A program of its own, for standard library and launcher only, so that any user can run it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench import Bench, channel, processes_mentioning
from scenario import print_report

SCRIPT = """
def is_writable(folder):
    try:
        (Path(folder) / "probe").write_text("x")
    except OSError:
        return False
    return True

def overwrite(path):
    try:
        path.write_text("changed")
    except OSError:
        return False
    return True

def ls(folder):
    return sorted(os.listdir(folder))

def resolves(name):
    return bool(socket.gethostbyname(name))

data, shard = ml / "input/data/whole", ml / "input/data/shards"
peers = me["hosts"]
mine = {int(each) for each in os.listdir("/proc") if each.isdigit()}
report = {
    "hostname": socket.gethostname(),
    "resolved": [name for name in [*peers, "localhost"] if resolves(name)],
    "ml": str(ml),
    "opt": set(sys.argv[1].split(":")) <= set(os.listdir("/opt")),
    "pid": os.getpid(),
    "strangers": sorted(mine - {1, 2}),
    "tmp": [name for name in ls("/tmp") if name not in sys.argv[2].split(":")],
    "shm": ls("/dev/shm"),
    "tmp_is_writable": is_writable("/tmp"),
    "home_is_writable": is_writable(Path.home()),
    "machine_is_writable": is_writable("/usr") or is_writable("/var/tmp"),
    "data": ls(data),
    "data_is_writable": is_writable(data) or overwrite(data / "a"),
    "shard": ls(shard),
    "shard_is_writable": is_writable(shard) or overwrite(shard / ls(shard)[0]),
}
port = int(os.environ["LAUNCHER_PORT_BASE"])
with socket.create_server((host, port)) as server:
    other = peers[1 - peers.index(host)]
    while True:
        try:
            socket.create_connection((other, port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    server.accept()
report["other_hosts"] = True
print(json.dumps(report))
"""


def run(folder: Path) -> dict[str, object]:
    data = folder / "data"
    data.mkdir()
    for name in ("a", "b"):
        (data / name).write_text(f"content of {name}")
    bench = Bench(folder, "sandbox")
    request = bench.request(
        SCRIPT,
        hosts=2,
        channels=[
            channel("whole", f"file://{data}"),
            channel("shards", f"file://{data}", S3DataDistributionType="ShardedByS3Key"),
        ],
    )
    opt = [child.name for child in Path("/opt").iterdir() if child.name not in ("ml", "home")]
    words = [":".join([*opt, "ml"]), ":".join(python_below_tmp())]
    request["AlgorithmSpecification"]["ContainerArguments"] = words
    bench.session.create_training_job(**request)
    description = bench.end_of()

    bench.start('escape(); print("up"); time.sleep(600)', name="long", hosts=2)
    bench.wait_for_line("up", name="long", hosts=2)
    bench.stop("long")
    stopped = bench.end_of("long")
    return {
        "status": description["TrainingJobStatus"],
        "isolation": description["LocalIsolation"],
        "hosts": {host: json.loads(lines[-1]) for host, lines in bench.lines().items()},
        "data_after": {path.name: path.read_text() for path in sorted(data.iterdir())},
        "stopped": stopped["TrainingJobStatus"],
        "left_over": list(processes_mentioning(str(bench.job_folder("long")))),
    }


def python_below_tmp() -> list[str]:
    """What a host sees in its /tmp when Python itself, or this checkout, lies there."""
    paths = [Path(each) for each in (sys.prefix, sys.base_prefix, *sys.path)]
    return [path.parts[2] for path in paths if path.parts[1:2] == ("tmp",) and len(path.parts) > 2]


if __name__ == "__main__":
    print_report("sandbox", run)

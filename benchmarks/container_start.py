"""Seconds from the start of a local job to its scripts' first lines: containers beside sandboxes.

    python benchmarks/container_start.py [--rounds 5] [--hosts 1 8] [--image NAME]

The image needs python3 alone; tests/build_containers.sh makes the one that is taken by default.
The isolations run by turns. "each" is the median of all hosts, "last" that of the job's last host,
"whole" the time to the job's end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from launcher import Job, LocalSession, PlatformError
from launcher.client.sessions import choose_isolation
from table.turns import in_turns

_ISOLATIONS = ("sandbox", "container")
_SCRIPT = "import time\nprint(time.time(), flush=True)\n"


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        for isolation in _ISOLATIONS:
            choose_isolation(isolation)
    except PlatformError as error:
        print(f"not measured: {error}")
        return 0
    sides = [(isolation, hosts) for hosts in options.hosts for isolation in _ISOLATIONS]
    measures = {
        f"{hosts} | {isolation}": partial(_measure, isolation, hosts, options.image)
        for isolation, hosts in sides
    }
    found = in_turns(options.rounds, measures)
    print("| hosts | isolation | each, s | last, s | whole, s |\n|---|---|---|---|---|")
    for side, runs in found.items():
        cells = (statistics.median(run[name] for run in runs) for name in ("each", "last", "whole"))
        print(f"| {side} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--image", default="localhost/launcher-numpy:1")
    return parser.parse_args(arguments)


def _measure(isolation: str, hosts: int, image: str) -> dict[str, float]:
    """Run one job; return seconds since its creation was asked for."""
    with tempfile.TemporaryDirectory(prefix="container-start-") as folder:
        code = Path(folder, "code")
        code.mkdir()
        (code / "start.py").write_text(_SCRIPT)
        session = LocalSession(
            Path(folder, "home"), isolation, image=image if isolation == "container" else None
        )
        began = time.time()
        session.create_training_job(**_request(hosts, code, image, Path(folder)))
        job = Job("job", session).wait(logs=False)
        whole = time.time() - began
        job.raise_for_status()
        lines = [line.text for line in job.logs() if line.text.startswith("1")]
    assert len(lines) == hosts, lines
    seconds = [float(line) - began for line in lines]
    return {"each": statistics.median(seconds), "last": max(seconds), "whole": whole}


def _request(hosts: int, code: Path, image: str, folder: Path) -> Any:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"file://{code}"}
    return {
        "TrainingJobName": "job",
        "RoleArn": "arn:aws:iam::000000000000:role/local",
        "AlgorithmSpecification": {
            "TrainingImage": image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/start.py"],
        },
        "ResourceConfig": {
            "InstanceType": "ml.c5.xlarge",
            "InstanceCount": hosts,
            "VolumeSizeInGB": 1,
        },
        "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": {"S3OutputPath": f"file://{folder}/output"},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }


if __name__ == "__main__":
    os.environ.setdefault("LAUNCHER_ENGINE", "podman")
    sys.exit(main(sys.argv[1:]))

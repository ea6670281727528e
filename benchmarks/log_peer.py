"""All lines of an ended job's hosts, read from CloudWatch by Launcher and by SageMaker's SDK v2.

    python benchmarks/log_peer.py --peer PYTHON      a Python that has sagemaker 2 installed

moto's CloudWatch and SageMaker serve real HTTP. Each reader is a process of its own; its time
counts from its first call (imports do not), and it is given 60 s. Without --peer: Launcher alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import boto3

from log_follow import JOB, Writers, cloudwatch, environment

RUNS = 5
LINES_OF_A_HOST = 200
PATIENCE_SECONDS = 60

_OURS = f"""
import json, sys, time
from launcher import AwsSession, Job
started = time.monotonic()
lines = [line.text for line in Job({JOB!r}, AwsSession("us-east-1")).logs()]
seconds = time.monotonic() - started
print("\\n".join(lines))
print(json.dumps(seconds), file=sys.stderr)
"""
_PEERS = f"""
import json, logging, sys, time
logging.disable(logging.CRITICAL)
import boto3, sagemaker
session = sagemaker.Session(boto3.Session(region_name="us-east-1"), default_bucket="none")
started = time.monotonic()
session.logs_for_job({JOB!r}, wait=False)
print(json.dumps(time.monotonic() - started), file=sys.stderr)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="a Python with sagemaker 2")
    parser.add_argument("--hosts", type=int, nargs="*", default=[40, 60])
    options = parser.parse_args()
    readers = {"Launcher": (sys.executable, _OURS)}
    if options.peer:
        readers["SDK v2"] = (options.peer, _PEERS)
    print("| hosts | lines | reader | lines read | s (median) |\n|---|---|---|---|---|")
    for hosts in options.hosts:
        with cloudwatch() as endpoint:
            os.environ.update(environment(endpoint))
            _make_job(hosts, endpoint)
            measured = {name: [] for name in readers}
            for _ in range(RUNS):  # interleaved, so that both see the same machine
                for name, (python, program) in readers.items():
                    if None not in measured[name]:
                        measured[name].append(_read(python, program, endpoint))
        for name, runs in measured.items():
            print(f"| {hosts} | {hosts * LINES_OF_A_HOST} | {name} | {_told(runs)} |", flush=True)


def _make_job(hosts: int, endpoint: str) -> None:
    Writers(hosts, endpoint).write(LINES_OF_A_HOST)
    boto3.client("sagemaker", "us-east-1", endpoint_url=endpoint).create_training_job(
        TrainingJobName=JOB,
        RoleArn="arn:aws:iam::123456789012:role/Training",
        AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
        OutputDataConfig={"S3OutputPath": "s3://bucket/output"},
        ResourceConfig={
            "InstanceType": "ml.m5.large",
            "InstanceCount": hosts,
            "VolumeSizeInGB": 30,
        },
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )


def _read(python: str, program: str, endpoint: str) -> tuple[int, float] | None:
    """(lines, seconds) of one reader; None when it does not come to an end."""
    with tempfile.TemporaryFile() as printed:
        try:
            done = subprocess.run(
                [python, "-c", program],
                env=environment(endpoint),
                stdout=printed,
                stderr=subprocess.PIPE,
                timeout=PATIENCE_SECONDS,
                check=True,
            )
        except subprocess.TimeoutExpired:
            return None
        printed.seek(0)
        lines = sum(b"of this host" in line for line in printed)
    return lines, json.loads(done.stderr.splitlines()[-1])


def _told(runs: list[tuple[int, float] | None]) -> str:
    if None in runs:
        return f"- | did not end within {PATIENCE_SECONDS}"
    (lines,) = {run[0] for run in runs if run}
    return f"{lines} | {statistics.median(run[1] for run in runs if run):.2f}"


if __name__ == "__main__":
    main()

"""What `launcher diagnose` makes of jobs with a planted cause, run one after the other.

Usage: python benchmarks/diagnosis.py [NAME ...] [--least 22]

A row for each job of diagnosis_parts/jobs.yaml: the causes that are right, the one named, how sure
it is, and right, wrong or "not sure". It fails with fewer right ones than --least, or a wrong one
of medium or high confidence. On a busy machine the other work is a second cause.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

JOBS = Path(__file__).parent / "diagnosis_parts" / "jobs.yaml"
_IMPORTS = """\
import contextlib, os, socket, subprocess, sys, threading, time, urllib.request

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))

"""
_PIPELINE = """\
import numpy as np

class Samples:
    def __len__(self):
        return {length}

    def __getitem__(self, index):
{item}
        return np.full(16, index % 7, np.float32)

def train_set():
    return Samples()

"""
_TRAIN = """\
from launcher.data import DataLoader

{before}
loader = DataLoader("pipeline:train_set", batch_size=1, shuffle=True)

def train_step(step):
{step}

step = 0
for epoch in range({epochs}):
    for batch in loader:
        step += 1
        train_step(step)
{after_step}
        if step == {steps}:
            break
{after_epoch}
"""


class SlowServer(BaseHTTPRequestHandler):
    """Answers after 30 ms."""

    def do_GET(self) -> None:
        time.sleep(0.03)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def slow_server() -> Iterator[str]:
    """The address of a server that takes a time."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def write(job: Mapping[str, Any], folder: Path, url: str) -> Path:
    """Write the job's code and its job file; return the latter."""

    def code(name: str, depth: int, default: str = "pass") -> str:
        return textwrap.indent(str(job.get(name, default)), "    " * depth)

    common = f"{_IMPORTS}URL = {url!r}\n"
    steps = job.get("steps", -1)
    pipeline = _PIPELINE.format(length=job.get("length", max(steps, 1)), item=code("item", 2))
    train = _TRAIN.format(
        before=code("before", 0, ""),
        step=code("step", 1),
        after_step=code("after_step", 2),
        after_epoch=code("after_epoch", 1),
        epochs=job.get("epochs", 1),
        steps=steps,
    )
    (folder / "pipeline.py").write_text(common + pipeline + code("setup", 0, ""))
    (folder / "train.py").write_text(common + code("plain", 0, train))
    groups = [("data_group", job.get("data_hosts", 0)), ("train_group", 1)]
    request: dict[str, Any] = {"entry_point": "train.py", "source_dir": ".", "max_run": 300}
    request["instance_groups"] = [
        {"instance_group_name": name, "instance_type": "local", "instance_count": count}
        for name, count in groups
        if count
    ]
    if job.get("data_hosts"):
        service = {"datasets": ["pipeline:train_set"], "workers_per_host": job.get("workers", 1)}
        request["data_service"] = service
    if job.get("ranks"):
        request["distribution"] = {"data_parallel": {"processes_per_host": job["ranks"]}}
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(request))
    return file


def found(name: str, file: Path) -> dict[str, Any]:
    """Run a job, and ask what limited it."""
    words = [sys.executable, "-m", "launcher"]
    run = [*words, "run", str(file), "--local", "--isolation", "process", "--name", name]
    done = subprocess.run(run, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    asked = subprocess.run(
        [*words, "diagnose", name, "-o", "json"], capture_output=True, text=True, check=True
    )
    return json.loads(asked.stdout)  # type: ignore[no-any-return]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--least", type=int, default=22)
    arguments = parser.parse_args()
    jobs = yaml.safe_load(JOBS.read_text())
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, slow_server() as url:
        os.environ["LAUNCHER_HOME"] = f"{folder}/home"
        for name in arguments.names or jobs:
            source = Path(folder) / name
            source.mkdir()
            answer = found(name, write(jobs[name], source, url))
            cause, sure = answer["cause"], answer["confidence"]
            word = "right" if cause in jobs[name]["cause"] else "wrong"
            if cause == "not_sure":
                word = "not sure"
            counts[word] += 1
            counts["surely wrong"] += word == "wrong" and sure in ("medium", "high")
            owed = " or ".join(jobs[name]["cause"])
            print(f"{name:34}{owed:20}{cause:16}{sure:8}{word:10}{answer['why']}", flush=True)
    print(dict(counts))
    return int(counts["surely wrong"] > 0 or counts["right"] < arguments.least)


if __name__ == "__main__":
    sys.exit(main())

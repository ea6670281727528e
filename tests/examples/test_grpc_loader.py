"""The gRPC example as a whole job, from its job file to its model."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "grpc_loader"

#: The example's own script, with the ids of every epoch as they come.
WITNESS = """
import os, runpy
from loader import GrpcLoader

plain = GrpcLoader.__iter__
count = 0

def watched(self):
    global count
    seen = []
    for batch in plain(self):
        seen += batch[0].tolist()
        yield batch
    print(f"witness pass={count} ids={' '.join(map(str, seen))}", flush=True)
    count += 1

GrpcLoader.__iter__ = watched
runpy.run_path("train.py", run_name="__main__")
"""


NAME = b"grpc-loader-test-%d" % os.getpid()


class Job:
    """A copy of the example, run by the command line with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "example"
        shutil.copytree(FOLDER, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "witness.py").write_text(WITNESS)
        self._environment = {**os.environ, "LAUNCHER_HOME": str(folder / "home"), "NO_COLOR": "1"}

    def start(self, *options: str) -> subprocess.Popen[str]:
        job = str(self.folder / "job.yaml")
        return self._popen("run", job, "--local", "--name", NAME.decode(), "-o", "json", *options)

    def log(self, host: str) -> str:
        talk, _ = self._popen("logs", NAME.decode(), "--host", host).communicate(timeout=540)
        return talk

    def processes(self, part: str) -> list[int]:
        """Living processes of the job whose command has `part` in it."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it may end meanwhile
                is_of_job = b"TRAINING_JOB_NAME=%s\0" % NAME in (entry / "environ").read_bytes()
                if is_of_job and part.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    def _popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "launcher", *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def job(grpc_example: SimpleNamespace, tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.slow
def test_the_job_trains_and_sees_each_sample_once_an_epoch(job: Job) -> None:
    stdout, talk = job.start("--set", "entry_point=witness.py").communicate(timeout=540)
    summary = json.loads(stdout)
    assert summary["status"] == "Completed", talk
    assert summary["metrics"]["test_accuracy"] > 0.9
    assert [(g["name"], g["role"], g["hosts"]) for g in summary["groups"]] == [
        ("server_group", "command", ["algo-1", "algo-2"]),
        ("train_group", "train", ["algo-3", "algo-4"]),
    ]
    passes: dict[str, list[int]] = {}
    for number, ids in re.findall(r"witness pass=(\d) ids=([\d ]+)", talk):
        passes.setdefault(number, []).extend(map(int, ids.split()))
    lengths = dict.fromkeys("0123", 1437) | {"4": 360}  # four epochs, and the evaluation
    assert {number: sorted(ids) for number, ids in passes.items()} == {
        number: list(range(length)) for number, length in lengths.items()
    }
    assert len(re.findall(r"server_group/algo-\d +\| closed", talk)) == 2
    assert job.processes("") == []


@pytest.mark.slow
def test_a_server_that_is_killed_fails_the_job_from_its_host(job: Job) -> None:
    process = job.start("--set", "hyperparameters.epochs=1000")
    wait_until(lambda: "train_loss" in job.log("algo-4"))
    (victim,) = [pid for pid in job.processes("server.py") if is_on(pid, "algo-2")]
    os.kill(victim, signal.SIGKILL)
    stdout, talk = process.communicate(timeout=540)
    summary = json.loads(stdout)
    assert process.returncode == 1
    assert summary["status"] == "Failed"
    assert summary["failure_reason"].startswith(
        "host algo-2 (server_group): the command ended before training did: killed by SIGKILL"
    ), talk
    assert job.processes("") == []


def is_on(pid: int, host: str) -> bool:
    return f"SM_CURRENT_HOST={host}".encode() in Path(f"/proc/{pid}/environ").read_bytes()

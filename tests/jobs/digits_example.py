"""The digits example as its user has it: a folder of files, the command line, nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from waiting import PATIENCE

from launcher.client.sessions import JobFolder, processes_of_host
from launcher.shared import read_process_file

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
#: Two ranks on one host, which is a process with torch less than on two.
ONE_TRAIN_HOST = (
    *("--set", "instance_groups.train_group.instance_count=1"),
    *("--set", "distribution.data_parallel.processes_per_host=2"),
)

#: The example's own script, with a hash over the raw bytes of every batch that a rank receives.
WITNESS = """
import hashlib, os, runpy
from launcher.data import DataLoader

plain = DataLoader.__iter__
count = 0

def watched(self):
    global count
    digest = hashlib.sha256()
    for batch in plain(self):
        for part in batch:
            digest.update(part.numpy().tobytes())
        yield batch
    print(f"witness rank={os.environ['RANK']} pass={count} sha256={digest.hexdigest()}", flush=True)
    count += 1

DataLoader.__iter__ = watched
runpy.run_path("train.py", run_name="__main__")
"""


class Example:
    """A copy of examples/digits, and the `launcher` command with a home of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "LAUNCHER_HOME": str(home), "NO_COLOR": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "launcher", *arguments]

    def start(self, job: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command("run", str(self.folder / job), "--local", "-o", "json", *options),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, job: str, *options: str) -> Run:
        return Run(self, *finish(self.start(job, *options)))

    def processes(self, job_name: str, part: str) -> list[int]:
        """Living processes of a job whose command has `part` in it, seen from outside.

        Other tests run jobs of the same name meanwhile, below other homes.
        """
        living = processes_of_host(self.job_folder(job_name).hosts)
        return [pid for pid in living if part.encode() in read_process_file(pid, "cmdline")]

    def job_folder(self, job_name: str) -> JobFolder:
        return JobFolder(Path(self.environment["LAUNCHER_HOME"]) / "jobs" / job_name)


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """(exit code, the one JSON object on stdout, stderr)"""
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"no end after {PATIENCE} s:\n{process.communicate()[1]}") from None
    return process.returncode, json.loads(stdout), stderr


class Run:
    """What a finished job left: the summary on stdout, the talk on stderr, the model."""

    def __init__(self, example: Example, code: int, summary: dict[str, Any], talk: str) -> None:
        self.code, self.summary, self.talk = code, summary, talk
        self._example = example

    def lines(self, pattern: str) -> set[str]:
        """What matched in the hosts' lines."""
        return set(re.findall(pattern, self.talk))

    @property
    def hashes(self) -> set[str]:
        return self.lines(r"witness rank=\d+ pass=\d+ sha256=\w+")

    @property
    def losses(self) -> set[str]:
        return self.lines(r"epoch=\d+ rank=\d+ train_loss=[\d.]+")

    @property
    def model_file(self) -> Path:
        """model.pt out of the model.tar.gz that the job left."""
        folder = self._example.folder.parent / self.summary["name"]
        with tarfile.open(self.summary["model_artifacts"].removeprefix("file://")) as archive:
            content = archive.extractfile("model.pt")
            assert content is not None
            folder.mkdir(exist_ok=True)
            (folder / "model.pt").write_bytes(content.read())
        return folder / "model.pt"

    def weights(self) -> dict[str, Any]:
        """The saved weights by name."""
        import torch

        weights: dict[str, Any] = torch.load(self.model_file, weights_only=True)
        return weights

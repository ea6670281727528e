"""Jobs whose cause is planted by throttling them while they run, from causes.yaml."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from throttles import limited_cpu, paused, slow_storage
from waiting import wait_until

from launcher import diagnose
from launcher.client.planning import Diagnosis
from launcher.client.sessions import JobFolder, network_faults, processes_of_host
from launcher.shared import StepLimit, process_ids, read_process_file

SOURCE = Path(__file__).parent / "source"
_DEFAULTS = {
    "sample_cpu": 0.0,
    "step_cpu": 0.0,
    "part_cpu": 0.0,
    "numbers": 16,
    "length": 1_000_000,
    "file_bytes": 1000,
    "dear_rank": -2,
    "dear_cpu": 0.0,
    "storage": "",
}


@dataclass(frozen=True, kw_only=True)
class PlantedJob:
    """A job of causes.yaml. task_ranks: ranks of a task; a script has one."""

    name: str
    seed: int
    spread: float
    seconds: float
    answer: str
    culprit: str = ""
    task: bool = False
    task_ranks: int = 2
    data_hosts: int = 0
    train_hosts: int = 1
    workers: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    throttle: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    distribution: Mapping[str, Any] | None = None

    @property
    def ranks(self) -> int:
        return self.task_ranks if self.task else 1

    @property
    def isolation(self) -> str:
        return "network" if "link" in self.throttle else "process"

    def all_settings(self, storage: str) -> dict[str, Any]:
        """What source/work.py reads."""
        found = {**_DEFAULTS, "batch": 16 if self.task else 1, **self.settings}
        is_pipeline = "model_parallel" in (self.distribution or {})
        found["rank_batch"] = found["batch"] / (1 if is_pipeline else self.ranks)
        if "steps" in found:
            found["length"] = found["steps"] * found["batch"]
        more = {"seed": self.seed, "spread": self.spread, "seconds": self.seconds}
        return {**found, **more, "storage": storage}

    def request(self) -> dict[str, Any]:
        """The job file."""
        groups = [("data_group", self.data_hosts), ("train_group", self.train_hosts)]
        job: dict[str, Any] = {
            "source_dir": ".",
            "max_run": 900,
            "instance_groups": [
                {"instance_group_name": name, "instance_type": "local", "instance_count": count}
                for name, count in groups
                if count
            ],
        }
        job |= {"task": "task:make"} if self.task else {"entry_point": "train.py"}
        if self.task:
            per_host = {"processes_per_host": self.ranks // self.train_hosts}
            job["distribution"] = self.distribution or {"data_parallel": per_host}
        if self.data_hosts:
            service = {"datasets": ["pipeline:train_set"], "workers_per_host": self.workers}
            if "prefetch_bytes" in self.settings:
                service["prefetch_bytes"] = self.settings["prefetch_bytes"]
            job["data_service"] = service
        return job

    def diagnosed(self, folder: Path) -> Diagnosis:
        """Run it with its throttle, and ask."""
        with ExitStack() as stack:
            storage = ""
            if values := self.throttle.get("storage"):
                size = self.settings.get("file_bytes", _DEFAULTS["file_bytes"])
                storage = stack.enter_context(slow_storage(**values, size=size))
            self.write(folder, storage)
            self._run(folder)
        return diagnose(self.name)

    def write(self, folder: Path, storage: str = "") -> Path:
        """Write its source and its job file; return the latter."""
        shutil.copytree(SOURCE, folder)
        (folder / "settings.json").write_text(json.dumps(self.all_settings(storage)))
        job_file = folder / "job.yaml"
        job_file.write_text(yaml.safe_dump(self.request()))
        return job_file

    def _run(self, folder: Path) -> None:
        command = [sys.executable, "-m", "launcher", "run", str(folder / "job.yaml"), "--local"]
        command += ["--isolation", self.isolation, "--name", self.name]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running:
            job = JobFolder(Path(os.environ["LAUNCHER_HOME"]) / "jobs" / self.name)
            try:
                with self._throttled(job, running):
                    output, _ = running.communicate(timeout=500)
            finally:
                running.terminate()
        assert running.returncode == 0, output

    @contextmanager
    def _throttled(self, job: JobFolder, running: subprocess.Popen[str]) -> Iterator[None]:
        """Throttle it once it trains: imports are no part of a cause."""
        with ExitStack() as stack:
            for kind, values in self.throttle.items():
                if kind == "storage":
                    continue
                wait_until(lambda: running.poll() is not None or self._trains(job))
                if running.poll() is not None:
                    break
                if kind == "link":
                    network_faults.slow(job, values["host"], megabits=values["megabits"])
                elif kind == "cpu":
                    host = job.hosts / values["host"]
                    stack.enter_context(
                        limited_cpu(lambda at=host: processes_of_host(at), values["share"])
                    )
                else:
                    rank = values["rank"]
                    stack.enter_context(paused(lambda of=rank: _rank(job, of), values["share"]))
            yield

    def _trains(self, job: JobFolder) -> bool:
        event = "train_step" if self.task else "worker_joined"
        files = job.logs.glob("*.events") if job.logs.is_dir() else ()
        return any(f"launcher: {event}" in path.read_text() for path in files)

    def verdict(self, found: Diagnosis) -> str:
        """right, wrong or "not sure"."""
        if found.limit is StepLimit.NOT_SURE:
            return "not sure"
        is_named = not self.culprit or self.culprit in (found.culprit or "")
        return "right" if found.limit.value == self.answer and is_named else "wrong"


def _rank(job: JobFolder, rank: int) -> list[int]:
    """The processes of a rank: those that torchrun gave its number, and their children."""
    of_job = processes_of_host(job.hosts, process_ids())
    entry = f"RANK={rank}".encode()
    return [pid for pid in of_job if entry in read_process_file(pid, "environ").split(b"\0")]


def planted_jobs(file: str = "causes.yaml") -> list[PlantedJob]:
    """The jobs of a file of causes."""
    read = yaml.safe_load((Path(__file__).parent / file).read_text())
    common = {key: read[key] for key in ("seed", "spread", "seconds")}
    return [PlantedJob(name=name, **{**common, **job}) for name, job in read["jobs"].items()]

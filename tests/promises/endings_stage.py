"""The stage of the matrix: one real job of two data and two train hosts, and ways to hurt it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from containers import session_in, torch_image
from endings_programs import FAULTS, PIPELINE, TRAIN
from endings_remains import Traces, command, parent, pids, processes_of, segments, variables
from waiting import wait_until

from launcher import DataParallel, DataService, Estimator, InstanceGroup
from launcher.client.jobs import Job
from launcher.client.sessions import HOST_VARIABLE, TERMINAL_STATUSES, LocalSession
from launcher.errors import JobNotFound

#: The isolation in which the matrix runs; by default the session's own choice.
ISOLATION = os.environ.get("LAUNCHER_ENDINGS_ISOLATION")
HANG_TIMEOUT = 8
_MEMORY = Path("/sys/fs/cgroup/memory")


@dataclass
class Stage:
    """folder: for everything of the test; home: of the session."""

    folder: Path
    host_failure: str = "fail"
    max_run: int = 600
    output: Path | None = None
    isolation: str | None = ISOLATION
    platform_environment: Mapping[str, str] | None = None
    job: Job = field(init=False)
    traces: Traces = field(init=False)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def job_folder(self) -> Path:
        return self.home / "jobs" / self.job.name

    def start(self, *, script: str = TRAIN, torchrun: bool = False, **fault: str) -> None:
        """Start the job; `fault` has CAUSE and WHO for its programs."""
        if torchrun:
            pytest.importorskip("torch")
        code, signals = self.folder / "code", self.folder / "signals"
        signals.mkdir(exist_ok=True)
        (signals / "channel").touch()
        code.mkdir()
        for name, text in {"faults": FAULTS, "pipeline": PIPELINE, "train": script}.items():
            (code / f"{name}.py").write_text(text)
        session = session_in(
            self.folder,
            self.isolation,
            torch_image() if self.isolation == "container" else "",
            stop_grace_seconds=20.0,
            host_failure=self.host_failure,
            platform_environment=self.platform_environment,
        )
        shm = segments()
        self.job = self._estimator(code, session, torchrun, fault).fit(
            {"signals": f"file://{signals}"}, wait=False
        )
        self.traces = wait_until(lambda: Traces.of(self.job_folder, shm), what="a host of the job")

    def _estimator(
        self, code: Path, session: LocalSession, torchrun: bool, fault: Mapping[str, str]
    ) -> Estimator:
        return Estimator(
            entry_point="train.py",
            source_dir=str(code),
            instance_groups=[
                InstanceGroup("data_group", "ml.c5.xlarge", 2, "data"),
                InstanceGroup("train_group", "ml.c5.xlarge", 2, "train"),
            ],
            # Without torchrun each train host runs the script on its own: two ranks all the same.
            distribution=DataParallel(processes_per_host=1, hang_timeout=HANG_TIMEOUT)
            if torchrun
            else None,
            data_service=DataService(datasets=("pipeline:train_set",), workers_per_host=1),
            environment=dict(fault),
            max_run=self.max_run,
            output_path=f"file://{self.output or self.folder / 'output'}",
            base_job_name="ending",
            sagemaker_session=session,
        )

    def signal(self, name: str) -> None:
        """Let the programs go on that wait for this."""
        (self.folder / "signals" / name).touch()

    def wait_for_line(self, text: str) -> None:
        wait_until(
            lambda: self.is_over() or any(text in line.text for line in self.job.logs()),
            what=f"the line {text!r}",
        )

    def wait_for_training(self) -> None:
        """Until both ranks have read data once, and both data hosts prepare it."""
        for rank in (0, 1):
            self.wait_for_line(f"trains: rank {rank}")
        wait_until(
            lambda: sum("worker_joined" in line.text for line in self.job.logs()) >= 2,
            what="two workers",
        )

    def is_over(self) -> bool:
        return self.job.status in TERMINAL_STATUSES

    # Who there is ------------------------------------------------------------------------------

    def process(self, host: str, module: str) -> int:
        """The process of a host that runs a module, and not one that wraps it."""
        found = [
            pid
            for pid in processes_of(self.job_folder)
            if variables(pid)[HOST_VARIABLE].endswith(f"/hosts/{host}")
            and module in command(pid)
            and "bwrap" not in command(pid)
        ]
        assert found, f"{host} has no process with {module}"
        return min(found)

    def pid_of(self, who: str, said: str = "") -> int:
        """The process of somebody; of several workers, the one whose host has said a line."""
        hosts = [line.host for line in self.job.logs() if said and said in line.text]
        match who:
            case "rank 0":
                return self.process("algo-3", "launcher.runtime.launch.rank")
            case "other rank":
                return self.process("algo-4", "launcher.runtime.launch.rank")
            case "worker":
                return self.process((*hosts, "algo-1")[0], "launcher.data.worker")
            case "data host init":
                return self.process("algo-1", "launch.py")
            case "leader":
                return self.process("algo-3", "launch.py")
            case "launcher":
                return self._platform()
        raise AssertionError(who)

    def _platform(self) -> int:
        """The process that runs the job, which is a child of its keeper."""
        both = [
            pid
            for pid in pids()
            if "launcher.client.sessions.local.job.platform_process" in command(pid)
            and str(self.job_folder) in command(pid)
        ]
        (platform,) = [pid for pid in both if parent(pid) in both]
        return platform

    def clear(self) -> None:
        """End the job, if there is one that has not ended."""
        if hasattr(self, "job"):
            with contextlib.suppress(JobNotFound):  # its disk was taken away already
                self.job.stop()
                self.job.wait()

    def kill(self, who: str, number: signal.Signals) -> None:
        os.kill(self.pid_of(who), number)


@contextlib.contextmanager
def memory_limit(pid: int, size: int) -> Iterator[None]:
    """A process under a memory limit of the kernel's; skips where there is no way to set one."""
    group = _MEMORY / f"launcher-endings-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made below {_MEMORY}: {error.strerror}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(size))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group to be empty")
        group.rmdir()

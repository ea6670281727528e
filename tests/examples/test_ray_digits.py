"""The example of Ray Data: whole jobs, two data and two train hosts, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kill_table import KillFigures, note
from promise_page import row_of
from waiting import wait_until

from launcher.shared import descendants

FOLDER = Path(__file__).parents[2] / "examples" / "ray_digits"
pytestmark = [pytest.mark.library("ray"), pytest.mark.slow]

#: Run in place of the script, with the ids of every batch as they come.
WITNESS = '''
import os
import runpy
import time
import ray

plain = ray.data.DataIterator.iter_torch_batches

def watched(self, **arguments):
    for batch in plain(self, **arguments):
        ids = batch["id"].tolist()
        tell("ids " + " ".join(map(str, ids)) + f" at {time.monotonic():.3f}")
        yield batch
    tell("read to the end")

def tell(line):
    """One write with a line of its own: Ray's threads print too, and may have an open line."""
    os.write(1, f"\\n{line}\\n".encode())

ray.data.DataIterator.iter_torch_batches = watched
runpy.run_path("train.py", run_name="__main__")
'''
#: Ray's workers are kept between epochs: to start one takes seconds of a processor.
KEPT = 'environment.RAY_idle_worker_killing_time_threshold_ms="600000"'
#: Of 1,437 samples: an equal split leaves out what is one too many.
READ = 1436
ENDLESS = ("--set", "hyperparameters.epochs=1000")
ONE_RANK = ("--set", "instance_groups.train_group.instance_count=1")


@dataclass(frozen=True)
class Program:
    """A process, which another with the same number is not."""

    pid: int
    start: str

    @property
    def words(self) -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return ""

    @property
    def is_alive(self) -> bool:
        with contextlib.suppress(OSError):
            return program(self.pid) == self
        return False


def program(pid: int) -> Program:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Program(pid, fields[19])  # starttime (proc(5))


class Job:
    """A copy of the example, run by the command line with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "example"
        shutil.copytree(FOLDER, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "witness.py").write_text(WITNESS)
        self._home = folder / "home"
        self._environment = {**os.environ, "LAUNCHER_HOME": str(self._home), "NO_COLOR": "1"}
        self.programs: set[Program] = set()

    def start(self, *options: str) -> None:
        witness = ["--set", "entry_point=witness.py", "--set", KEPT]
        job = ["run", str(self.folder / "job.yaml"), "--local", "--name", "job", "-o", "json"]
        self._run = self._popen(*job, *witness, *options)

    def end(self) -> tuple[dict[str, object], str]:
        """The outcome and the log of a job when it has ended, and none of its processes is left."""
        self.see()
        stdout, talk = self._run.communicate(timeout=540)
        self.ended = time.monotonic()
        wait_until(lambda: not any(each.is_alive for each in self.programs), what="the end of all")
        return json.loads(stdout), talk

    def stop(self) -> None:
        stopping = self._popen("stop", "job")
        stopping.communicate(timeout=540)
        assert stopping.returncode == 0

    def close(self) -> None:
        """End a job that a failed test has left: it holds the head's port."""
        if self._run.poll() is None:
            self.stop()
            self._run.communicate(timeout=540)

    def log(self) -> str:
        talk, _ = self._popen("logs", "job").communicate(timeout=540)
        return talk

    def reads(self) -> None:
        """Wait until ranks read batches, in the second epoch."""

        def is_there() -> bool:
            assert self._run.poll() is None, self._run.communicate()
            return "epoch=0 rank=0" in self.log()

        wait_until(is_there, what="the second epoch")
        self.see()

    def see(self) -> set[Program]:
        """All processes of the job's hosts."""
        for pid in self._hosts():
            for each in (pid, *descendants(pid)):
                with contextlib.suppress(OSError):
                    self.programs.add(program(each))
        return self.programs

    def of_host(self, host: str, words: str) -> list[Program]:
        """Those of a host whose command has such words."""
        below = {pid for top in self._hosts(host) for pid in descendants(top)}
        found = []
        for each in sorted(below):
            with contextlib.suppress(OSError):
                found += [program(each)] if words in program(each).words else []
        return found

    def _hosts(self, host: str = "algo-") -> list[int]:
        """The processes above a host's: their variables name it, which Ray's titles overwrite."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode()
                if f"{self._home}/jobs/job/hosts/{host}" in command:
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


def ids_of_epochs(log: str) -> list[Counter[int]]:
    """The samples of each pass over a dataset, of all ranks together."""
    passes: dict[str, int] = Counter()
    epochs: list[Counter[int]] = []
    for host, line in re.findall(r"train_group/(algo-\d) +\| (ids [\d ]+|read to the end)", log):
        number = passes[host]
        if line == "read to the end":
            passes[host] += 1
        else:
            epochs += [Counter()] * (number == len(epochs))
            epochs[number].update(map(int, line.split()[1:]))
    return epochs


def longest_wait(log: str, ended: float) -> float:
    """Seconds between two batches of a pass, or until the job has ended within one."""
    waits, last = [0.0], {}
    for host, line in re.findall(r"train_group/(algo-\d) +\| (ids .+|read to the end)", log):
        if line == "read to the end":
            last.pop(host, None)
        else:
            moment = float(line.rpartition(" at ")[2])
            waits.append(moment - last.get(host, moment))
            last[host] = moment
    return max(waits + [ended - moment for moment in last.values()])


def check(outcome: dict[str, object], log: str, epochs: int) -> None:
    """Both ranks have learned from each sample once in each epoch."""
    assert outcome["status"] == "Completed", log
    *trained, tested = ids_of_epochs(log)
    assert len(trained) == epochs
    for ids in trained:
        assert set(ids.values()) == {1}
        assert set(ids) < set(range(1797))
        assert len(ids) == READ
    assert tested == Counter(range(0, 1797, 5))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    job.close()


@pytest.fixture
def keeps(job: Job, pytestconfig: pytest.Config) -> Callable[..., None]:
    """Compares a job that has lost somebody with the page, and notes it for the table."""

    def keeps(victims: str, kills: int, outcome: dict[str, object], log: str) -> None:
        row = row_of("ray", victims)
        went_on = outcome["status"] == "Completed"
        trained = ids_of_epochs(log)[:-1] if went_on else []
        figures = KillFigures(
            mode="ray",
            victims=victims,
            kills=kills,
            went_on=went_on,
            lost=sum(READ - len(ids) for ids in trained),
            doubled=sum(ids.total() - len(ids) for ids in trained),
            blocked=longest_wait(log, job.ended),
            promised=f"{row.outcome}, {row.blocked}".rstrip(", "),
        )
        note(pytestconfig, figures)
        assert went_on == row.outcome.startswith("goes on"), log
        assert figures.blocked <= row.seconds, log

    return keeps


@pytest.mark.library("smoke")
def test_the_job_learns_from_each_sample_once_an_epoch(job: Job) -> None:
    job.start()
    job.reads()
    outcome, log = job.end()
    check(outcome, log, epochs=6)
    assert outcome["metrics"].get("test_accuracy", 0) >= 0.9, log
    # Both nodes have ended by SIGTERM, within the 30 s until SIGKILL.
    assert len(re.findall(r"data_group/algo-\d +\| closed", log)) == 2


def test_a_task_of_a_killed_ray_worker_runs_again(job: Job, keeps: Callable[..., None]) -> None:
    job.start("--set", "hyperparameters.epochs=3")
    job.reads()
    victims = job.of_host("algo-1", "ray::") + job.of_host("algo-2", "ray::")
    victims = [each for each in victims if "Agent" not in each.words]
    assert victims
    for each in victims:
        os.kill(each.pid, signal.SIGKILL)
    outcome, log = job.end()
    check(outcome, log, epochs=3)
    keeps("a worker process of Ray", len(victims), outcome, log)


@pytest.mark.library("smoke")
def test_a_killed_rank_fails_the_job_with_its_host(job: Job, keeps: Callable[..., None]) -> None:
    job.start(*ENDLESS)
    job.reads()
    (rank,) = job.of_host("algo-4", "-u -m launcher.runtime.launch.rank ")
    os.kill(rank.pid, signal.SIGKILL)
    outcome, log = job.end()
    assert outcome["status"] == "Failed"
    assert outcome["failure_reason"].startswith(
        "host algo-4 (train_group), rank 1: killed by SIGKILL"
    )
    keeps("a rank", 1, outcome, log)


@pytest.mark.parametrize(
    ("host", "program", "what"),
    [
        pytest.param("algo-2", "raylet/raylet ", "a node of Ray", id="node"),
        pytest.param(
            "algo-1", "/gcs_server ", "the coordinator of Ray (`gcs_server`)", id="coordinator"
        ),
    ],
)
def test_a_killed_part_of_ray_fails_the_job_with_its_host(
    job: Job, keeps: Callable[..., None], host: str, program: str, what: str
) -> None:
    job.start(*ENDLESS, *ONE_RANK)
    job.reads()
    (part,) = job.of_host(host, program)
    os.kill(part.pid, signal.SIGKILL)
    outcome, log = job.end()
    assert outcome["status"] == "Failed"
    assert outcome["failure_reason"].startswith(
        f"host {host} (data_group): the command ended before training did: exit code 1"
    )
    keeps(what, 1, outcome, log)


def test_a_lost_data_host_fails_the_job_with_its_name(job: Job, keeps: Callable[..., None]) -> None:
    job.start(*ENDLESS, *ONE_RANK)
    job.reads()
    os.kill(min(job.of_host("algo-1", "launch.py"), key=lambda each: each.pid).pid, signal.SIGKILL)
    outcome, log = job.end()
    assert outcome["status"] == "Failed"
    assert "algo-1" in outcome["failure_reason"]
    keeps("a data host", 1, outcome, log)


def test_a_stopped_job_leaves_nothing(job: Job) -> None:
    job.start(*ENDLESS, *ONE_RANK)
    job.reads()
    job.stop()
    outcome, _ = job.end()
    assert outcome["status"] == "Stopped"

"""Kinds of endings beside those of the matrix, and the shapes of jobs that they are drawn for.

The clock of a job's processes is set by offset_clock.c, which takes it from a file; without a C
compiler, those endings are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from endings_remains import processes_of, variables
from endings_stage import Stage
from needs import skip_without_isolation
from small_disk import small_disk
from waiting import wait_until

from launcher import DataService, Estimator, InstanceGroup
from launcher.client.sessions import (
    HOST_VARIABLE,
    Isolation,
    JobFolder,
    LocalSession,
    choose_isolation,
    network_faults,
)

#: Each rank prints that it is up, waits for the word, and one of them does what KIND names.
SCRIPT = """
import os, resource, shutil, signal, sys, threading, time
from pathlib import Path
from faults import signals

rank = int(os.environ.get("RANK", "0"))
if os.environ.get("READS"):
    from launcher.data import DataLoader
    for batch in DataLoader("pipeline:train_set", batch_size=4):
        pass

def by_signal(name):
    number = getattr(signal, name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)

def use_up_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
    while True:
        pass

def write_too_much():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    Path(os.environ["SM_MODEL_DIR"], "weights").write_bytes(bytes(2 << 20))

def open_too_many():
    kept = [open("/dev/null") for _ in range(10**7)]

def use_up_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    kept = [bytearray(1 << 26) for _ in range(100)]

def fill_disk():
    with Path(os.environ["SM_MODEL_DIR"], "weights").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))

def recurse(depth=0):
    recurse(depth + 1)

def lose_folder():
    folder = Path("gone").absolute()
    folder.mkdir()
    os.chdir(folder)
    shutil.rmtree(folder)
    os.getcwd()

def replace_model():
    model = Path(os.environ["SM_MODEL_DIR"])
    shutil.rmtree(model)
    model.write_text("weights")

def raise_in_thread():
    failed = []
    def work():
        try:
            raise ValueError("in a thread")
        except ValueError as error:
            failed.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise failed[0]

ACTS = {
    **{name: (lambda name=name: by_signal(name)) for name in dir(signal) if name[:3] == "SIG"},
    "cpu": use_up_cpu,
    "fsize": write_too_much,
    "nofile": open_too_many,
    "memory": use_up_memory,
    "disk": fill_disk,
    "recursion": recurse,
    "folder": lose_folder,
    "model": replace_model,
    "thread": raise_in_thread,
    "exit 5": lambda: os._exit(5),
    "exec": lambda: os.execv("/bin/false", ["false"]),
    "undecodable": lambda: exec('raise ValueError("odd \\\\udcff text")'),
    "long": lambda: exec('raise ValueError("x" * 100_000)'),
    "parent": lambda: os.kill(os.getppid(), signal.SIGKILL) or time.sleep(600),
}
print(f"trains: rank {rank}", flush=True)
began = time.time()
while not (signals / "act").exists():
    time.sleep(0.02)
    if abs(time.time() - began) > 3600:
        print("clock", "+" if time.time() > began else "-", flush=True)
        began = time.time()
kind = os.environ["KIND"]
if kind in ACTS and rank == int(os.environ["WHO"]):
    print("misbehaves", flush=True)
    ACTS[kind]()
elif kind not in ("model", "none"):
    time.sleep(600)  # until the host ends it
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A job: its groups, by role, and how many ranks it has."""

    name: str
    train_hosts: int
    data_hosts: int = 0

    def start(self, stage: ShapedStage, kind: str, who: int) -> None:
        stage.shape, stage.who = self, who
        reads = "1" if self.data_hosts else ""
        stage.start(script=SCRIPT, KIND=kind, WHO=str(who), READS=reads)


class ShapedStage(Stage):
    """A stage of any shape, and the rank that is hurt."""

    shape: Shape
    who: int
    #: For the job's hosts.
    variables: Mapping[str, str] = {}

    @property
    def clock(self) -> Path:
        """The file with the offset of the job's clock, for endings that set it."""
        return self.folder / "signals" / "clock"

    @property
    def host(self) -> str:
        """Return the host of the rank that is hurt: train hosts are named first."""
        return f"algo-{self.who + 1}"

    def _estimator(self, code, session: LocalSession, torchrun: bool, fault) -> Estimator:
        groups = [InstanceGroup("train_group", "ml.c5.xlarge", self.shape.train_hosts, "train")]
        if self.shape.data_hosts:
            groups.append(
                InstanceGroup("data_group", "ml.c5.xlarge", self.shape.data_hosts, "data")
            )
        data = DataService(datasets=("pipeline:train_set",), workers_per_host=1)
        return Estimator(
            entry_point="train.py",
            source_dir=str(code),
            instance_groups=groups,
            data_service=data if self.shape.data_hosts else None,
            environment={**fault, **self.variables},
            max_run=self.max_run,
            output_path=f"file://{self.folder / 'output'}",
            base_job_name="ending",
            sagemaker_session=session,
        )


SHAPES = (
    Shape(name="one host", train_hosts=1),
    Shape(name="two hosts", train_hosts=2),
    Shape(name="one data host", train_hosts=1, data_hosts=1),
    Shape(name="two and two", train_hosts=2, data_hosts=2),
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """An ending. act: what a rank does, or a deed of ours; reason: of the job's failure.

    surroundings: what is there before the job; train_hosts: as many the job must have.
    """

    name: str
    act: str = ""
    deed: Callable[[ShapedStage], None] | None = None
    status: str = "Failed"
    reason: str = ""
    surroundings: Callable[[ShapedStage], AbstractContextManager[object]] = nullcontext
    train_hosts: int = 1


def _of_rank(reason: str) -> str:
    return rf"host algo-\d+ \(train_group\)(, rank \d+)?: {reason}"


def _signal(name: str) -> Kind:
    return Kind(name=name, act=name, reason=_of_rank(f"killed by {name}"))


def _stop(stage: ShapedStage) -> None:
    stage.job.stop()


def _kill_platform(stage: ShapedStage) -> None:
    stage.kill("launcher", signal.SIGKILL)


def _pause_platform(stage: ShapedStage) -> None:
    """Stop the platform while its job runs, and let it go on: nothing is lost."""
    stage.kill("launcher", signal.SIGSTOP)
    stage.signal("act")
    logs = stage.job_folder / "logs"  # the platform, which is to tell when a line came, is stopped
    wait_until(lambda: any("misbehaves" in log.read_text() for log in logs.glob("*.log")))
    stage.kill("launcher", signal.SIGCONT)


def _freeze_host(stage: ShapedStage) -> None:
    for pid in processes_of(stage.job_folder):
        if variables(pid).get(HOST_VARIABLE, "").endswith(f"/hosts/{stage.host}"):
            os.kill(pid, signal.SIGSTOP)


@contextmanager
def _own_clock(stage: ShapedStage) -> Iterator[None]:
    """The job's processes have the clock of a file; skips where none of them could."""
    compiler = shutil.which("cc")
    if compiler is None or choose_isolation(stage.isolation) is not Isolation.SANDBOX:
        pytest.skip("there is no C compiler, or hosts do not see what it makes")
    stage.clock.parent.mkdir()
    stage.clock.write_text("+0")
    library = stage.clock.with_name("offset_clock.so")
    source = Path(__file__).with_name("offset_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    # Hosts have them in their channel; bwrap, which starts them, warns that there is none yet.
    inside = Path("/opt/ml/input/data/signals")
    stage.platform_environment = {"LD_PRELOAD": str(library), "OFFSET_CLOCK": str(stage.clock)}
    stage.variables = {
        "LD_PRELOAD": str(inside / library.name),
        "OFFSET_CLOCK": str(inside / stage.clock.name),
    }
    yield


def _day_ahead(stage: ShapedStage) -> None:
    _set_clock(stage, "+86400")


def _day_back(stage: ShapedStage) -> None:
    _set_clock(stage, "-86400")


def _set_clock(stage: ShapedStage, offset: str) -> None:
    """Set the clock of a job that runs, let it run with that, and then let a rank fail."""
    stage.clock.write_text(offset)
    stage.wait_for_line(f"clock {offset[0]}")
    stage.signal("act")


def _small_disk(stage: ShapedStage) -> AbstractContextManager[object]:
    return small_disk(stage.home, "24m")


@contextmanager
def _networks(stage: ShapedStage) -> Iterator[None]:
    """Each host of the job has a network of its own; skips where none can be made."""
    skip_without_isolation("network")
    stage.isolation = "network"
    yield


def _cut_network(stage: ShapedStage) -> None:
    network_faults.cut(JobFolder(stage.job_folder), stage.host)


KINDS = (
    *map(_signal, ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE")),
    *map(_signal, ("SIGHUP", "SIGQUIT", "SIGPIPE", "SIGSYS", "SIGALRM")),
    Kind(name="CPU time", act="cpu", reason=_of_rank("killed by SIGXCPU")),
    Kind(name="file size", act="fsize", reason=_of_rank(r"OSError: .*File too large")),
    Kind(name="descriptors", act="nofile", reason=_of_rank(r"OSError: .*Too many open files")),
    Kind(name="memory", act="memory", reason=_of_rank("MemoryError")),
    Kind(
        name="full disk",
        act="disk",
        reason=_of_rank("OSError: .*No space left on device"),
        surroundings=_small_disk,
    ),
    Kind(
        name="network cut",
        act="wait",
        deed=_cut_network,
        reason=r"host algo-\d+ \(train_group\): .*(its network is cut|does not answer any more)",
        surroundings=_networks,
        train_hosts=2,
    ),
    Kind(
        name="frozen host",
        act="wait",
        deed=_freeze_host,
        reason=r"host algo-\d+ \(train_group\): .*(frozen|sent nothing|silent)",
        train_hosts=2,
    ),
    *(
        Kind(
            name=name,
            act="thread",
            deed=deed,
            reason=_of_rank("ValueError: in a thread"),
            surroundings=_own_clock,
        )
        for name, deed in (("clock ahead", _day_ahead), ("clock back", _day_back))
    ),
    Kind(name="recursion", act="recursion", reason=_of_rank("RecursionError: ")),
    Kind(name="folder gone", act="folder", reason=_of_rank("FileNotFoundError: ")),
    Kind(name="model replaced", act="model", reason="host algo-.*in place of the folder /opt/ml/m"),
    Kind(name="thread", act="thread", reason=_of_rank("ValueError: in a thread")),
    Kind(name="exit code", act="exit 5", reason=_of_rank("exit code 5")),
    Kind(name="other program", act="exec", reason=_of_rank("exit code 1")),
    Kind(name="undecodable", act="undecodable", reason=_of_rank(r"ValueError: odd .*text")),
    Kind(name="long error", act="long", reason=_of_rank("ValueError: x{100}")),
    Kind(name="parent gone", act="parent", reason=_of_rank("killed by SIGKILL")),
    Kind(name="stop", act="none", deed=_stop, status="Stopped|Completed"),
    Kind(name="platform killed", act="wait", deed=_kill_platform, reason="the local platform proc"),
    Kind(name="platform frozen", act="SIGSEGV", deed=_pause_platform, reason=_of_rank("killed by")),
)


def matches(kind: Kind, reason: str) -> bool:
    return re.match(kind.reason, reason, re.DOTALL) is not None

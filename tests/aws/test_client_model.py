"""Clients of an endpoint, each behind a front whose faults are drawn call by call.

Every sequence is one client with its own seed: it creates a job, follows it while it runs beside
others, or asks about it after its end. What the endpoint itself says is the truth: the exit code,
when the job ended, and how many jobs there are.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from customer import Customer
from front import serve as serve_front
from model_faults import FaultPlan
from waiting import wait_until

from launcher.client.endpoint import serve

#: The clients' clock runs so much faster, on a machine where none needs longer for itself than half
#: a second; and by it an exit code is due so long after a job's end.
SPEED, DUE_SECONDS = 20.0, 60.0
QUIET_SECONDS = 0.5
SEQUENCES = int(os.environ.get("LAUNCHER_MODEL_SEQUENCES", "500"))
SEED = int(os.environ.get("LAUNCHER_MODEL_SEED", "1"))
MOST_JOBS = 25
#: Clients at once.
TOGETHER = int(os.environ.get("LAUNCHER_MODEL_TOGETHER", "4"))
UNLIMITED = {
    name: float("inf") for name in ("DescribeLogStreams", "GetLogEvents", "FilterLogEvents")
}
SCRIPT = """\
import os, pathlib, sys, time
print("begun", flush=True)
gate = pathlib.Path({gate!r})
while not gate.exists():
    time.sleep(0.05)
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "weights").write_text("1 2 3")
print("done", flush=True)
sys.exit({code})
"""
#: What the script prints; a job that is stopped may not have begun.
LINES = ("begun", "done")
JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.m5.large
instance_count: 1
role: LauncherLocalRole
image_uri: 123456789012.dkr.ecr.us-east-1.amazonaws.com/any:1
"""
LIVE = (("logs", "-f"), ("wait",), ("metrics", "-f"), ("status", "--watch"))
AFTER = (*LIVE, ("status",), ("logs",), ("list",), ("download",))
#: Verbs whose exit code is the job's.
OF_THE_JOB = {"run", "logs -f", "wait", "metrics -f", "status --watch", "status"}
WAYS_BACK = ("fix:", "launcher logs -f", "launcher status", "renew", "try again", "request id")


@dataclass
class Client:
    """One sequence: its words, its faults, and what came of it."""

    number: int
    words: tuple[str, ...]
    job: str
    plan: FaultPlan
    output: Path
    front: Any = None
    server: Any = None
    began: float = 0.0
    code: int | None = None
    ended: float = 0.0

    @property
    def verb(self) -> str:
        return " ".join(self.words)

    @property
    def stderr(self) -> str:
        return Path(f"{self.output}.err").read_text(errors="replace")

    @property
    def stdout(self) -> str:
        return Path(f"{self.output}.out").read_text(errors="replace")


@dataclass
class Findings:
    """What was wrong, and figures of all sequences."""

    wrong: list[str] = field(default_factory=list)
    verbs: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    latest: float = 0.0


class Forks:
    """The process that runs clients."""

    def __init__(self, speed: float) -> None:
        script = Path(__file__).with_name("client_forks.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(speed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdout.readline() == b"ready\n"
        self._ended: dict[int, dict[str, Any]] = {}

    def start(self, client: Client, environment: Mapping[str, str], words: list[str]) -> None:
        order = {
            "id": client.number,
            "words": words,
            "environment": dict(environment),
            "output": str(client.output),
        }
        client.began = time.time()
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    def is_over(self, client: Client) -> bool:
        while select.select([self._process.stdout], [], [], 0)[0]:
            told = json.loads(self._process.stdout.readline())
            self._ended[told["id"]] = told
        if told := self._ended.pop(client.number, None):
            client.code, client.ended = told["code"], told["at"]
        return client.code is not None

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class Model:
    """The endpoint, its jobs, and the judge of clients."""

    def __init__(self, endpoint: Any, root: Path) -> None:
        self.customer = Customer(endpoint, root)
        self.root = root
        self.forks = Forks(1.0)
        self.found = Findings()
        self._numbers = itertools.count()
        #: Seconds that a client without faults needs on this machine.
        self.pace = 0.0
        self.speed = 1.0
        self._extra: Client | None = None
        self._running: list[Client] = []

    def add_source(self, name: str, code: int) -> None:
        folder = self.root / "source" / name
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(SCRIPT.format(gate=str(self.gate(name)), code=code))
        (folder / "job.yaml").write_text(JOB)

    def gate(self, name: str) -> Path:
        return self.root / f"{name}.gate"

    def start(self, words: tuple[str, ...], job: str, plan: FaultPlan) -> Client:
        number = next(self._numbers)
        output = self.root / f"client-{number:04d}"
        client = Client(number, words, job, plan, output)
        client.front, client.server = serve_front(self.customer.endpoint.url)
        client.front.draw = plan.draw
        environment = {
            **self.customer.endpoint.environment,
            "HTTP_PROXY": client.front.address,
            "http_proxy": client.front.address,
            "NO_PROXY": "",
            "no_proxy": "",
            "NO_COLOR": "1",
            "LAUNCHER_HOME": str(self.root / "home"),
        }
        self.forks.start(client, environment, self._words(client))
        return client

    def _words(self, client: Client) -> list[str]:
        verb, *options = client.words
        if verb == "run":
            folder = self.root / "source" / client.job
            return ["run", str(folder / "job.yaml"), "--yes", "--name", client.job]
        if verb == "list":
            return ["list", "--cloud", "--name-contains", client.job]
        target = ["--to", f"{client.output}.results"] if verb == "download" else []
        return [verb, *options, "--cloud", client.job, *target]

    def finish(self, client: Client) -> None:
        wait_until(lambda: self.forks.is_over(client), 500, f"the end of {client.verb}")
        client.front.closed.set()
        client.server.shutdown()
        client.server.server_close()

    def measure(self) -> None:
        """Measure how long a client without faults takes here, and set the clocks by it."""
        calm = [self.start(("list",), "none", FaultPlan(seed=0, is_calm=True)) for _ in range(4)]
        for client in calm:
            self.finish(client)
            assert client.code == 0, client.stderr
            self.pace = max(self.pace, client.ended - client.began)
        self.forks.close()
        self.speed = SPEED / max(1.0, self.pace / QUIET_SECONDS)
        self.forks = Forks(self.speed)

    def create(self, name: str, plan: FaultPlan) -> Client | None:
        """Create a job by a client with faults; one that rightly gives up is judged here."""
        client = self.start(("run",), name, plan)
        wait_until(lambda: self.forks.is_over(client) or self.status(name), 500, "a creation")
        if self.status(name):
            return client
        self.finish(client)
        self.found.verbs["run"] += 1
        self.found.codes[f"run: {client.code}"] += 1
        is_told = any(way in client.stderr for way in WAYS_BACK)
        if client.code != 4 or not is_told:
            self.found.wrong.append(f"run {name}: exit code {client.code}: {client.stderr[-300:]}")
        again = self.start(("run",), name, FaultPlan(seed=0, is_calm=True))
        wait_until(lambda: self.status(name), 500, "a creation")
        self._extra = again
        return None

    def end(self, name: str, truth: str) -> float:
        """Let a job end, or stop it; return when it ended, as the endpoint says."""
        self.customer.wait(name, "SecondaryStatus", "Training")
        if truth == "Stopped":
            self.customer.sagemaker.stop_training_job(TrainingJobName=name)
        self.gate(name).touch()
        described = self.customer.end_of(name)
        assert described["TrainingJobStatus"] == truth, described
        if self._extra:
            self.finish(self._extra)
            self._extra = None
        return float(described["TrainingEndTime"].timestamp())

    def after(self, words: tuple[str, ...], name: str, plan: FaultPlan, truth: str) -> None:
        """Start a client that asks about a job that has ended, once there is room for it."""
        if len(self._running) >= TOGETHER:
            self.finish_all(truth, keep=TOGETHER - 1)
        self._running.append(self.start(words, name, plan))

    def finish_all(self, truth: str, keep: int = 0) -> None:
        while len(self._running) > keep:
            client = self._running.pop(0)
            self.finish(client)
            self.judge(client, truth, 0.0)

    def tell(self) -> None:
        """Print the figures."""
        found, late = self.found, self.found.latest * self.speed
        print(
            f"{found.verbs.total()} sequences, {found.met.total()} faults, {len(found.wrong)} "
            f"wrong; a client alone takes {self.pace:.2f} s, and the clock of all is "
            f"{self.speed:.1f} times as fast: by it, exit codes came {late:.1f} s after an end"
        )
        for counted in (found.verbs, found.codes, found.met):
            print("  ", dict(sorted(counted.items())))

    def status(self, name: str) -> str | None:
        found = self.customer.sagemaker.list_training_jobs(NameContains=name)
        jobs = {job["TrainingJobName"]: job for job in found["TrainingJobSummaries"]}
        assert set(jobs) <= {name}, "created twice"
        return jobs[name]["TrainingJobStatus"] if name in jobs else None

    def judge(self, client: Client, truth: str, due_from: float) -> None:
        """Compare what a client said with what the endpoint knows."""
        self.found.verbs[client.verb] += 1
        self.found.met.update(each.partition(": ")[2] for each in client.plan.told)
        self.found.codes[f"{client.verb}: {client.code}"] += 1
        late = client.ended - max(due_from, client.began)
        self.found.latest = max(self.found.latest, late)
        own = {"Completed": 0, "Failed": 1, "Stopped": 3}[truth]
        allowed = {own if client.verb in OF_THE_JOB else 0}
        if client.verb == "download" and truth != "Completed":
            allowed = {0, 1}  # it may have left nothing
        if client.plan.may_lose_state or (client.verb == "logs" and client.plan.loses_logs):
            allowed.add(4)
        for wrong in self._faults(client, truth, allowed, late):
            self.found.wrong.append(
                f"{client.number} (seed {client.plan.seed}) {client.verb}, {truth}: {wrong}; met "
                f"{client.plan.told}"
            )
            print(self.found.wrong[-1], flush=True)

    def _faults(self, client: Client, truth: str, allowed: set[int], late: float) -> Iterator[str]:
        if client.code not in allowed:
            yield f"exit code {client.code} is not in {allowed}: {client.stderr[-400:]}"
        if "a traceback:" in client.stderr:
            yield client.stderr[-300:]
        limit = DUE_SECONDS / self.speed + 3 * self.pace
        if client.verb in OF_THE_JOB and not client.plan.may_lose_state and late > limit:
            yield f"{late:.1f} s after the end, {limit:.1f} s allowed"
        if client.code == 4 and not any(way in client.stderr for way in WAYS_BACK):
            yield f"no way back: {client.stderr[-200:]}"
        if client.verb == "logs -f" and client.code != 4:
            shown = [line.rpartition("| ")[2] for line in client.stdout.splitlines()]
            is_told = client.plan.changes_lines or "the log is not complete" in client.stderr
            is_whole = shown == list(LINES[: len(shown)] if truth == "Stopped" else LINES)
            if not is_told and not is_whole:
                yield f"lines are missing, and nothing is said: {shown}"

    def close(self) -> None:
        self.forks.close()


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    root = tmp_path_factory.mktemp("model")
    with serve(root / "endpoint", rates=UNLIMITED, isolation="process") as endpoint:
        model = Model(endpoint, root)
        model.measure()
        try:
            yield model
        finally:
            model.close()


def play(model: Model, jobs: int, sequences: int, seed: int) -> None:
    """Run sequences over jobs: one creates each, some follow it, and the others ask afterwards."""
    seeds = itertools.count(seed * 100_000 + 1)

    def plan(index: int) -> FaultPlan:
        return FaultPlan(seed=next(seeds), may_lose_state=index % 5 == 4)

    for number in range(jobs):
        share = sequences // jobs + (number < sequences % jobs)
        name, truth = f"model-{number}", ("Completed", "Failed", "Stopped")[number % 3]
        model.add_source(name, code=1 if truth == "Failed" else 0)
        run = model.create(name, plan(number))
        live = [
            model.start(LIVE[(number + index) % len(LIVE)], name, plan(number + index))
            for index in range(min(share - 1, TOGETHER))
        ]
        ended = model.end(name, truth)
        for client in ([run] if run else []) + live:
            model.finish(client)
            model.judge(client, truth, ended)
        for index in range(share - 1 - len(live)):
            model.after(AFTER[(number + index) % len(AFTER)], name, plan(index), truth)
        model.finish_all(truth)
        assert model.status(name) == truth
    model.tell()


@pytest.mark.long
def test_a_few_sequences_of_clients_with_faults_are_right(model: Model) -> None:
    play(model, jobs=2, sequences=24, seed=SEED)
    assert not model.found.wrong, "\n".join(model.found.wrong)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(3600)
def test_all_sequences_of_clients_with_faults_are_right(model: Model) -> None:
    play(model, jobs=MOST_JOBS, sequences=SEQUENCES, seed=SEED)
    assert not model.found.wrong, "\n".join(model.found.wrong)

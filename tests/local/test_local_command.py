"""Command groups in whole local jobs, from the job file to the reason."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench import processes_mentioning
from containers import session_in
from waiting import wait_until

from launcher import Job, JobSpec, PyTorch, Ready
from launcher.client.request import prepare
from launcher.client.sessions import TERMINAL_STATUSES, place
from launcher.client.submit import send

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "groups.md"
PATIENT = "import time\nprint('training', flush=True)\ntime.sleep(1000)\n"
Start = Callable[..., Job]


def example_of_the_docs() -> dict[str, str]:
    """The files of the section on the command role, as they stand there."""
    section = DOCS.read_text().partition("## Any program on a group")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(yaml|python)\n(.*?)```", section, re.DOTALL)
    job, server, train = (text for _, text in blocks)
    assert server.startswith("# server.py")
    assert train.startswith("# train.py")
    return {"job.yaml": job, "server.py": server, "train.py": train}


@pytest.fixture
def start(tmp_path: Path, isolation: str) -> Iterator[Start]:
    """Start a job of the docs' example with other files, and leave nothing of it."""
    session = session_in(tmp_path, isolation, stop_grace_seconds=20.0)
    made: list[Job] = []

    def start(*changes: str, **files: str) -> Job:
        folder = tmp_path / "source"
        folder.mkdir()
        for name, text in (example_of_the_docs() | files).items():
            (folder / name).write_text(text)
        spec = JobSpec.from_yaml(folder / "job.yaml", changes)
        send(prepare(spec, place(spec, session, "job")), session)
        made.append(Job("job", session))
        return made[-1]

    yield start
    for job in made:
        if job.status not in TERMINAL_STATUSES:
            job.stop()
        job.wait()
    assert processes_mentioning(str(tmp_path / "home" / "jobs" / "job" / "hosts")) == {}


def printed(job: Job, text: str) -> bool:
    return any(text in line.text for line in job.logs())


@pytest.mark.long
def test_the_example_of_the_docs_runs_and_is_attached_with_its_command(start: Start) -> None:
    job = start().wait()
    job.raise_for_status()
    lines = [line.text for line in job.logs(group="train_group") if line.text.startswith("hello")]
    assert lines == ["hello from algo-1", "hello from algo-2"]
    assert [(group["name"], group["role"]) for group in job.summary()["groups"]] == [
        ("server_group", "command"),
        ("train_group", "train"),
    ]
    server, _ = PyTorch.attach("job", job.session).spec.instance_groups
    assert (server.command, server.ready) == (("python", "server.py"), Ready(port=8000))


@pytest.mark.long
def test_a_program_that_fails_is_the_reason(start: Start) -> None:
    server = "raise SystemExit('no licence')\n"
    job = start("instance_groups.server_group.instance_count=1", **{"server.py": server}).wait()
    assert job.status == "Failed"
    assert job.description()["FailureReason"] == (
        "host algo-1 (server_group): the command ended before it was ready: exit code 1\nno licence"
    )


@pytest.mark.long
def test_a_killed_command_host_fails_the_job(start: Start, tmp_path: Path) -> None:
    job = start(**{"train.py": PATIENT})
    wait_until(lambda: printed(job, "training"))
    victims = processes_mentioning(str(tmp_path / "home" / "jobs" / "job" / "hosts" / "algo-2"))
    os.kill(min(pid for pid, command in victims.items() if "launch.py" in command), signal.SIGKILL)
    job.wait()
    assert job.status == "Failed"
    reason = job.description()["FailureReason"]
    assert reason == "host algo-2 (server_group): killed by SIGKILL"


@pytest.mark.long
def test_a_shell_is_a_program_like_any_other(start: Start) -> None:
    command = '["sh", "-c", "echo at $LAUNCHER_HOST_ADDRESS; exec python server.py"]'
    job = start(f"instance_groups.server_group.command={command}").wait()
    job.raise_for_status()
    # All of its own in isolation network, as on SageMaker; else the one that is this host's.
    assert printed(job, "at 0.0.0.0") or printed(job, "at 127.")


@pytest.mark.long
def test_a_stopped_job_stops_its_programs(start: Start) -> None:
    job = start(**{"train.py": PATIENT})
    wait_until(lambda: printed(job, "training"))
    job.stop()
    assert job.wait().status == "Stopped"

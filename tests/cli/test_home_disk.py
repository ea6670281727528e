"""LAUNCHER_HOME on a disk that is full or read-only: each verb does its work, or says why not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_disk import small_disk
from waiting import wait_until

from launcher.client.sessions import processes_of_host

pytestmark = pytest.mark.long

FULL, READ_ONLY = "No space left on device", "Read-only file system"


@pytest.fixture
def disk(terminal) -> Iterator[Path]:
    """A small file system as LAUNCHER_HOME."""
    with small_disk(terminal.home, "12m") as home:
        yield home


def fill(disk: Path) -> None:
    with (disk / "filling").open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def make_read_only(disk: Path) -> None:
    """As soon as no process writes there any more."""
    mount = ["mount", "-o", "remount,ro", str(disk)]
    wait_until(lambda: subprocess.run(mount, capture_output=True, check=False).returncode == 0)


@pytest.fixture(params=[FULL, READ_ONLY])
def trouble(request: pytest.FixtureRequest) -> tuple[str, Callable[[Path], None]]:
    """The system's words, and what makes a disk so."""
    return request.param, {FULL: fill, READ_ONLY: make_read_only}[request.param]


def start(terminal, script: str) -> str:
    """Create a job of one host; its name."""
    created = terminal("run", terminal.write(script), "--local", "-d")
    assert created.exit_code == 0, created.output
    return created.stdout.strip().splitlines()[-1]


SCRIPT = """
import os
print("loss=0.5", flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("w")
"""


def test_every_verb(terminal, disk: Path, trouble, tmp_path: Path, monkeypatch) -> None:
    words, spoil = trouble
    monkeypatch.chdir(tmp_path)
    name = start(terminal, SCRIPT)
    job = terminal.folder / "job.yaml"
    assert terminal("wait", name).exit_code == 0
    spoil(disk)

    for verb in (
        ["status", name],
        ["logs", name],
        ["list", "--session", "local"],
        ["metrics", name],
        ["diagnose", name],
        ["compare", name, name],
        ["report", name],
        ["wait", name],
        ["stop", name],
        ["download", name, "--to", tmp_path / "results"],
        ["download", name, "model/weights", "--to", tmp_path / "weights"],
        ["check", "--config"],
        ["plan", "types"],
        ["check", "--schema"],
        ["init", tmp_path / "new"],
        ["run", job, "--local", "--dry-run"],
    ):
        result = terminal(*verb)
        assert result.exit_code == 0, (verb, result.output)

    for verb in (
        ["run", job, "--local"],
        ["rerun", name],
        ["endpoint", "--port", "0"],
        *([["rm", name], ["rm", "--older-than", "0h", "--yes"]] if words == READ_ONLY else []),
    ):
        result = terminal(*verb)
        assert result.exit_code == 2, (verb, result.output)
        assert words in result.stderr or "is not writable" in result.stderr, (verb, result.stderr)
        assert str(disk) in result.stderr, (verb, result.stderr)
    if words == FULL:
        assert terminal("rm", name).exit_code == 0, "which is the way to more space"
    else:
        checked = terminal("check", job)
        assert checked.exit_code == 2
        assert f"{disk} is not writable" in checked.stdout


def test_a_job_whose_platform_died_before_its_disk_became_read_only(terminal, disk: Path) -> None:
    name = start(terminal, "import time; print('up', flush=True); time.sleep(600)")
    folder = disk / "jobs" / name
    wait_until(lambda: "up" in terminal("logs", name).stdout)
    for pid in processes_with(str(folder)):
        with contextlib.suppress(ProcessLookupError):  # its parent's end was its own
            os.kill(pid, signal.SIGKILL)
    make_read_only(disk)

    for _ in range(2):
        shown = terminal("status", name)
        assert shown.exit_code == 1, shown.output
        assert "the local platform process died" in shown.stdout
    assert terminal("wait", name).exit_code == 1
    assert not processes_of_host(folder / "hosts")


def processes_with(text: str) -> list[int]:
    """The processes that have a text in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


#: Without a word of its own: the disk has no room for one.
FILLING = """
import os
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "wb", buffering=0) as file:
    for size in (1 << 20, 1 << 12, 1):
        try:
            while file.write(b"x" * size):
                pass
        except OSError:
            pass
os.kill(os.getppid(), 9)
"""


def test_a_job_that_can_write_no_reason_says_that_its_disk_is_full(terminal, disk: Path) -> None:
    assert terminal("run", terminal.write(FILLING), "--local").exit_code == 1
    (status,) = disk.glob("jobs/*/status.json")
    reason = json.loads(status.read_text())["FailureReason"]
    assert reason.startswith("host algo-1 (homogeneousCluster): ")
    assert f"; the disk with {status.parent}/hosts/algo-1 is full (" in reason
    assert reason.endswith("or set LAUNCHER_HOME to a folder on another disk")

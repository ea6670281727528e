"""Jobs in containers as on macOS: no /proc, and none of what only Linux has. macOS was not run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_engine import FakeEngine
from needs import needs_program, skip_without_isolation
from waiting import wait_until

import launcher

REPOSITORY = Path(launcher.__file__).parents[1]
JOB = """
entry_point: train.py
image_uri: own:1
instance_groups:
  - {instance_group_name: train, instance_type: local, instance_count: 2}
"""


@pytest.fixture
def without_linux(tmp_path):
    """Runs launcher with words; returns what it printed."""
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "train.py").write_text("print('hello')")
    path = f"{REPOSITORY}/tests/kit/without_linux{os.pathsep}{REPOSITORY}"

    def run(*words, code=0):
        own = {"PYTHONPATH": path, "LAUNCHER_HOME": str(tmp_path / "home")}
        environment = {**os.environ, **own}
        command = [sys.executable, "-m", "launcher", *words]
        result = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert result.returncode == code, result.stderr
        return result.stdout + result.stderr

    return run


@needs_program("ps", "procps")  # macOS has it
def test_a_job_runs_to_its_end(tmp_path, without_linux):
    engine = FakeEngine(tmp_path, "docker", run="echo hello")
    local = ("--local", "--isolation", "container", "--engine", str(engine.program))
    shown = without_linux("run", "job.yaml", "--name", "job", *local)
    assert "isolation: container" in shown
    assert "Completed" in without_linux("status", "job")
    assert "hello" in without_linux("logs", "job")
    for words in engine.calls("run"):
        assert words[words.index("--shm-size") + 1] == "4000000000", "half of the engine's memory"


@pytest.mark.library("containers")
def test_a_real_container_is_entered_and_stopped(tmp_path, without_linux):
    skip_without_isolation("container")
    (tmp_path / "train.py").write_text("import time; print('up', flush=True); time.sleep(300)")
    options = ("--engine", "podman", "--image", "localhost/launcher-numpy:1", "--detach")
    without_linux(
        "run", "job.yaml", "--local", "--isolation", "container", "--name", "job", *options
    )
    wait_until(lambda: without_linux("logs", "job").count("| up") == 2)
    assert "algo-2" in without_linux("exec", "job", "--host", "algo-2", "--", "hostname")
    without_linux("stop", "job")
    without_linux("wait", "job", code=3)
    assert "Stopped" in without_linux("status", "job", code=3)


def test_check_says_which_isolations_work(tmp_path, without_linux, monkeypatch):
    engine = FakeEngine(tmp_path, "docker")
    monkeypatch.setenv("LAUNCHER_ENGINE", str(engine.program))
    found = without_linux("check")
    for isolation in ("process", "sandbox", "network"):
        assert f"{isolation:10} does not work: it needs Linux, but this is darwin" in found
    assert "isolation container  works: hosts are containers" in found


@pytest.mark.skipif(sys.platform != "linux", reason="shows that the program hides what it says")
def test_nothing_of_linux_is_there():
    path = REPOSITORY / "tests/kit/without_linux"
    program = """
import ctypes, os, socket, sys
found = [os.path.exists("/proc"), hasattr(os, "sched_getaffinity"), hasattr(os, "unshare")]
try:
    ctypes.CDLL(None).prctl
    socket.socket(socket.AF_UNIX).bind(chr(0) + "name")
except (AttributeError, OSError) as error:
    print(sys.platform, *found, type(error).__name__)
"""
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.stdout == "darwin False False False AttributeError\n", result.stderr

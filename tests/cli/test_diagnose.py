"""launcher diagnose: real jobs of this machine whose cause is planted."""

from __future__ import annotations

import json

import pytest

#: Each sample takes a time, and so does each step.
PIPELINE = """\
import time

import numpy as np


class Samples:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        WORK
        return np.full(10, index, np.float32)


def train_set():
    return Samples()
"""
TRAIN = """\
import time

from launcher.data import DataLoader


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


for batch in DataLoader("pipeline:train_set", batch_size=1, epochs=1):
    STEP
"""
JOB = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: local, instance_count: 1}
  - {instance_group_name: train_group, instance_type: local, instance_count: 1}
data_service: {datasets: ["pipeline:train_set"], workers_per_host: 1}
"""
ALONE = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
"""


@pytest.fixture
def diagnosed(terminal):
    """Run a job to its end; return what `launcher diagnose --json` says."""

    def diagnosed(job, *, work, step):
        path = terminal.write(TRAIN.replace("STEP", step), job)
        (terminal.folder / "pipeline.py").write_text(PIPELINE.replace("WORK", work))
        options = ("--local", "--isolation", "process", "--name", "job-1", "--set", "max_run=900")
        ran = terminal("run", path, *options)
        assert ran.exit_code == 0, ran.stderr
        result = terminal("diagnose", "job-1", "--json")
        assert result.exit_code == 0, result.stderr
        found = json.loads(result.stdout)
        waited = found["evidence"]["data"]["share"]
        changes = [each["what"] for each in found["advice"]]
        plans = [line[9:] for line in ran.stdout.splitlines() if line.startswith("Plan ")]
        assert len(plans) == (waited > 0.2), "what to change, beside the summary"
        assert all(any(plan.startswith(what) for what in changes) for plan in plans)
        return found

    return diagnosed


@pytest.mark.long
def test_workers_that_wait_for_a_disk(diagnosed, terminal):
    found = diagnosed(JOB, work="time.sleep(0.2)", step="time.sleep(0.02)")

    assert found["limit"] == "storage-bound"
    assert found["confidence"] in ("high", "medium")
    assert "workers_per_host" in found["advice"][0]["what"]
    assert found["evidence"]["data"]["steps"] == 40
    text = terminal("diagnose", "job-1").stdout
    assert "Diagnosis  storage-bound" in text
    assert "data: waited for" in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("work", "limit"),
    [
        pytest.param("sum(range(3_000_000))", "input-bound", id="computes"),
        pytest.param("time.sleep(0.05)", "storage-bound", id="waits"),
    ],
)
def test_a_rank_that_loads_its_data_itself(diagnosed, work, limit):
    found = diagnosed(ALONE, work=work, step="burn(0.05)")

    assert found["limit"] == limit
    if limit == "input-bound":
        assert "data group" in found["advice"][0]["what"]
        assert "DALI" in found["advice"][-1]["what"]


@pytest.mark.long
def test_a_script_that_computes(diagnosed):
    found = diagnosed(ALONE, work="pass", step="burn(0.1)")

    assert (found["limit"], found["confidence"]) == ("compute-bound", "medium")
    assert found["advice"][0]["what"].startswith("do not add a data group")


@pytest.mark.long
def test_a_script_that_sleeps(diagnosed):
    found = diagnosed(ALONE, work="pass", step="time.sleep(0.1)")

    assert (found["limit"], found["cause"], found["confidence"]) == ("stalled", "sleep", "high")


@pytest.mark.long
def test_a_script_that_reads_nothing_is_not_judged(terminal):
    path = terminal.write("print('hello')\n")
    assert terminal("run", path, "--local", "--isolation", "process", "--name", "j").exit_code == 0
    result = terminal("diagnose", "j")

    assert result.exit_code == 0
    assert "Diagnosis  not sure" in result.stdout
    assert "Unknown" in result.stdout
    assert terminal("diagnose", "k").exit_code == 2

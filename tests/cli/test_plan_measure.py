"""`launcher plan measure`: what samples cost, as the workload of `launcher plan`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher import Workload
from launcher.client.cli import main
from launcher.client.doctor import ReadLimits
from launcher.client.planning import ProfileRequest, profile_datasets, worker_counts
from launcher.errors import PlatformError

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
MODULE = """\
import os, time, numpy as np

class Rows:
    size = 400
    def __len__(self):
        return self.size
    def __getitem__(self, index):
        return self.sample(index)
    def sample(self, index):
        return {"image": np.zeros((3, 100), np.float32), "label": index}

def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def train_set():
    return Rows()
"""
FAST = ("--samples", "100", "--seconds", "2")


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words, code=""):
        if not Path("pipeline.py").exists() or code:
            Path("pipeline.py").write_text(MODULE + code)
        runner = CliRunner(env={"LAUNCHER_HOME": str(tmp_path), "LAUNCHER_PRICES": None})
        return runner.invoke(main, words, catch_exceptions=False)

    def profile(*words, code=""):
        return run("plan", "measure", *words, *FAST, code=code)

    profile.run = run
    return profile


def fields_of(result):
    """The only profile of a JSON result."""
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["profiles"]
    return found


def error_of(result):
    assert result.exit_code == 2
    return result.stderr


SKEWED = """
class Skewed(Rows):
    def sample(self, index):
        busy(0.02 if index % 10 == 0 else 0.002)
        return super().sample(index)
def skewed_set():
    return Skewed()
"""


@pytest.mark.long
def test_the_distribution_is_measured_and_the_mean_is_in_its_range(launcher):
    found = fields_of(
        launcher("pipeline:skewed_set", "--batch-size", "16", "-o", "json", code=SKEWED)
    )

    cpu, spread = found["cpu_seconds_per_sample"], found["measured"]["cpu_seconds"]
    assert cpu["low"] < 0.0038 * 1.1
    assert cpu["high"] > 0.0038
    assert 0.002 <= spread["p50"] < 0.01 < spread["max"]
    assert cpu["deviation"] > 0.003
    assert found["bytes_per_batch"] == 16 * (1200 + 8)
    assert found["samples_per_epoch"] == 400
    assert found["measured"]["memory_bytes_per_worker"] > 10e6
    assert found["measured"]["seconds_until_first_sample"] > 0


def test_the_file_is_that_of_the_planner(launcher, tmp_path):
    words = ["--batch-size", "64", "--step-seconds", "NVIDIA T4=0.05", "--cpu-family", "c5"]
    result = launcher("pipeline:train_set", *words, "--out", "w.yaml")

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == "pipeline:train_set"
    assert "speed 1 is that of c5" in result.stdout
    workload = Workload.from_yaml(tmp_path / "w.yaml")
    assert (workload.batch_size, workload.cpu_speed) == (64, {"c5": 1.0})
    assert 0 < workload.parallel_efficiency <= 1
    assert len(os.sched_getaffinity(0)) == 1 or "of a CPU is left" in result.stdout
    assert workload.datasets == ("pipeline:train_set",)
    plan = launcher.run("plan", "--workload", "w.yaml", "--limit", "1")
    assert plan.stdout.startswith("Recommended: 1 x ml.g4dn.")


def test_without_a_file_the_workload_is_printed_alone(launcher, tmp_path):
    result = launcher("pipeline:train_set", "--batch-size", "64")

    (tmp_path / "w.yaml").write_text(result.stdout)
    assert "CPU per sample" in result.stderr
    assert "`launcher plan` needs gpu_seconds_per_step" in result.stderr
    refused = launcher.run("plan", "--workload", "w.yaml")
    assert refused.exit_code == 2
    assert '"gpu_seconds_per_step" is missing' in refused.stderr
    assert 'write "gpu_seconds_per_step: {NVIDIA A10G: 0.45}"' in refused.stderr


@pytest.mark.long
def test_the_digits_example_is_profiled_and_planned(launcher, tmp_path):
    pytest.importorskip("PIL")
    from PIL import Image

    for name in ("job.yaml", "pipeline.py", "train.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    for split in ("train", "test"):
        folder = tmp_path / "data" / split / "7"
        folder.mkdir(parents=True)
        for number in range(40):
            Image.new("L", (8, 8), number).save(folder / f"{number}.png")
    step = ["--step-seconds", "NVIDIA T4=0.02"]
    result = launcher(
        "job.yaml", *step, "--set", "hyperparameters.batch-size=16", "--out", "w.yaml"
    )

    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("pipeline:")] == [
        "pipeline:train_set",
        "pipeline:test_set",
    ]
    workload = Workload.from_yaml(tmp_path / "w.yaml")
    assert (workload.batch_size, workload.samples_per_epoch) == (16, 40)
    assert workload.bytes_per_batch == 16 * (28 * 28 * 4 + 8)
    assert workload.entry_point == "train.py"
    words = ["--gpu-types", "g4dn.xlarge", "--write", "planned.yaml"]
    plan = launcher.run("plan", "--workload", "w.yaml", *words)
    assert plan.stdout.startswith("Recommended: 1 x ml.g4dn.xlarge"), plan.stderr
    assert launcher.run("check", "planned.yaml", "--session", "local").stdout


def test_one_dataset_of_a_job_has_the_jobs_inputs_and_batch_size(launcher, tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "job.yaml").write_text(
        "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"
        "inputs: {rows: {s3_data: 'file://rows'}}\nhyperparameters: {batch_size: 8}\n"
    )
    (tmp_path / "train.py").write_text("")
    code = "def stored():\n    os.listdir(os.environ['SM_CHANNEL_ROWS'])\n    return Rows()\n"
    found = fields_of(launcher("pipeline:stored", "-o", "json", code=code))

    assert found["batch_size"] == 8
    assert found["datasets"] == ["pipeline:stored"]
    share = found["measured"]["waiting_share"]  # of a busy machine's CPU, too: no bound holds
    assert 0 <= share < 1
    if share < 0.05:
        assert "wait_seconds_per_sample" not in found


def test_an_iterable_dataset_of_unknown_length(launcher):
    code = """
class Stream:
    def __iter__(self):
        for index in range(37):
            yield np.full(10, index, np.int64)
def stream():
    return Stream()
"""
    found = fields_of(launcher("pipeline:stream", "--batch-size", "64", "-o", "json", code=code))

    assert found["bytes_per_batch"] == 64 * 80  # from a batch of the 37 that there are
    assert "samples_per_epoch" not in found


def test_samples_that_make_no_batch_are_measured_one_by_one(launcher):
    code = """
class Ragged(Rows):
    def sample(self, index):
        return np.zeros(1 + index % 2, np.int64)
def ragged():
    return Ragged()
"""
    found = fields_of(launcher("pipeline:ragged", "--batch-size", "4", "-o", "json", code=code))

    assert 32 < found["bytes_per_batch"] < 64
    assert found["measured"]["not_collated"]


@pytest.mark.long
def test_processes_that_prepare_at_the_same_time_give_the_efficiency(launcher):
    """Each process holds a lock while it prepares, so that two are no faster than one."""
    code = """
import fcntl
class Locked(Rows):
    def sample(self, index):
        with open("lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.004)
        return super().sample(index)
def locked_set():
    return Locked()
"""
    words = ["--batch-size", "8", "-o", "json"]
    alone, locked = (
        fields_of(launcher(f"pipeline:{name}", *words, code=SKEWED + code))
        for name in ("skewed_set", "locked_set")
    )

    cpus = alone["measured"]["cpus"]
    if cpus == 1:
        pytest.skip("one CPU has nothing to share")
    rates = locked["measured"]["samples_per_second"]
    assert list(rates) == [str(count) for count in worker_counts(cpus)]
    assert locked["parallel_efficiency"] == pytest.approx(1 / cpus, rel=0.5)
    assert locked["parallel_efficiency"] < alone["parallel_efficiency"] <= 1


@pytest.mark.long
def test_a_busy_machine_widens_the_range(launcher):
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # the process that measures shares one CPU with another
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        words = ["pipeline:skewed_set", "--batch-size", "16", "-o", "json"]
        found = fields_of(launcher(*words, code=SKEWED))
    finally:
        os.sched_setaffinity(0, allowed)
        other.kill()
        other.wait()

    cpu, share = found["cpu_seconds_per_sample"], found["measured"]["busy_machine_share"]
    assert share > 0.05
    assert cpu["high"] >= cpu["mean"] * (1 + 0.999 * share)
    assert found["measured"]["waiting_share"] < 0.2  # the others' time is not the sample's waiting


@pytest.mark.long
def test_a_sample_that_waits_is_not_taken_for_computing(launcher):
    code = """
class Slow(Rows):
    def sample(self, index):
        time.sleep(0.01)
        return index
def slow():
    return Slow()
"""
    found = fields_of(launcher("pipeline:slow", "--batch-size", "4", "-o", "json", code=code))

    assert found["cpu_seconds_per_sample"]["mean"] < 0.005
    assert found["measured"]["waiting_share"] > 0.5
    wait = found["wait_seconds_per_sample"]
    assert 0.005 < wait["low"] < wait["mean"] < wait["high"] < 0.1
    assert found["bytes_per_worker"] == found["measured"]["memory_bytes_per_worker"] > 10e6


@pytest.mark.long
def test_a_batch_that_waits_once_is_not_taken_for_samples_that_wait(launcher):
    code = """
class Store(Rows):
    def __getitem__(self, index):
        return self.__getitems__([index])[0]
    def __getitems__(self, indices):
        time.sleep(0.02)
        return [self.sample(index) for index in indices]
def store():
    return Store()
"""
    found = fields_of(launcher("pipeline:store", "--batch-size", "20", "-o", "json", code=code))

    assert 0.0009 < found["wait_seconds_per_sample"]["mean"] < 0.01


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pipeline:train_set"], "give it: --batch-size 256"),
        (["pipeline:none", "--batch-size", "4"], "pipeline:none was not measured"),
        (["pipeline:empty", "--batch-size", "4"], "has no samples: its __len__ returned 0"),
        (["pipeline:elsewhere", "--batch-size", "4"], "no channel 'rows'"),
        (["other.yaml"], "there is no file other.yaml: name a dataset"),
        ([], "there is no file job.yaml"),
        (["pipeline:train_set", "--batch-size", "0"], "'--batch-size'"),
        (["pipeline:train_set", "--cpu-family", "c55"], "c55 is no instance family"),
        (["pipeline:train_set", "--step-seconds", "A10G=1"], "is no accelerator"),
        (["pipeline:train_set", "--step-seconds", "NVIDIA T4=x"], "'x' is no number of seconds"),
        (["pipeline:train_set", "--step-seconds", "NVIDIA T4=0"], "out of range"),
        (["pipeline:train_set", "--out", "pipeline.py"], "pipeline.py exists already"),
        (["pipeline:train_set", "--out", "no/w.yaml"], "there is no folder no"),
        (["pipeline:train_set", "--set", "max_run=5"], "job.yaml"),
    ],
)
def test_what_is_wrong_is_said(launcher, words, said):
    code = """
def empty():
    class Empty(Rows):
        size = 0
    return Empty()
def elsewhere():
    from launcher.data import channel
    return os.listdir(channel("rows"))
"""
    assert said in error_of(launcher(*words, code=code))


def test_a_channel_in_s3_is_said_to_be_elsewhere(launcher, tmp_path):
    (tmp_path / "job.yaml").write_text(
        "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"
        "inputs: {rows: {s3_data: 's3://amzn-s3-demo-bucket/rows'}}\n"
    )
    (tmp_path / "train.py").write_text("")
    code = "from launcher.data import channel\ndef far():\n    return os.listdir(channel('rows'))\n"
    said = error_of(launcher("pipeline:far", "--batch-size", "4", code=code))

    assert "its channel rows is not on this machine" in said
    assert "--set inputs.rows=file:///folder" in said


@pytest.mark.long
def test_a_dataset_that_hangs_is_left_with_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "class Bad(Rows):\n    def sample(self, index):\n        time.sleep(600)\n"
    (tmp_path / "pipeline.py").write_text(f"{MODULE}{code}stuck = Bad\n")
    limits = ReadLimits(samples=9, seconds=0.5, build_seconds=3.0)
    request = ProfileRequest(batch_size=4, limits=limits)

    with pytest.raises(PlatformError, match=r"did not answer within 5 s(?s:.*)time\.sleep\(600\)"):
        list(profile_datasets("pipeline:stuck", request))


def test_a_traceback_names_the_users_file(launcher):
    code = "class Broken(Rows):\n    sample = lambda self, index: {}['gone']\n"
    said = error_of(launcher("pipeline:Broken", "--batch-size", "4", code=code))

    assert "KeyError: 'gone'" in said
    assert "launcher-check-" not in said


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--script", "with a data group, --from-job NAME"),
        ("--steps", "give them with --step-seconds"),
        ("--calibrate", "add the second to cpu_speed in the first one's file"),
    ],
)
def test_an_option_of_an_earlier_version_is_refused_with_what_to_use_instead(
    launcher, option, instead
):
    said = " ".join(error_of(launcher("pipeline:train_set", option, "50")).split())

    assert f"there is no {option} any more" in said
    assert instead in said

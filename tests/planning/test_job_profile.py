"""`launcher plan measure --from-job`: the workload of a job that ran, from its logs."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher import Workload
from launcher.client.cli import main

#: Jobs that ran on this machine, with all they left behind.
RAN = Path(__file__).parents[1] / "compatibility" / "a405acd" / "home"
FIGURES = {"batches": 100, "bytes": 3.2e6, "prepared": 100, "cpu": 1.6, "longest": 0.25}
EPOCH = (
    "launcher: data_epoch host=algo-2 group=train_group rank={rank} stream={stream} epoch={epoch} "
    "steps={steps} samples={samples} pads=0 drops=0 wait_seconds=1 total_seconds=2 waits={{}}"
)
TRAIN = EPOCH.format(rank=0, stream="pipeline:train_set", epoch=0, steps=50, samples=1590)
NEXT = EPOCH.format(rank=0, stream="pipeline:train_set", epoch=1, steps=50, samples=1590)
VERDICT = (
    "launcher: data_verdict host=algo-2 group=train_group bound=nothing wait_share=0.01 busy=0.5 "
    'more=0 margin=1 text="not input-bound (1.0% waiting for data)"'
)


USAGE = (
    "launcher: host_usage host=algo-2 group=train_group cpu=0.5 cpus=4 memory_bytes=1000 gpu={gpu} "
    "gpu_memory_bytes=7"
)
STEP = (
    "launcher: train_step host=algo-2 group=train_group rank={rank} epoch=0 step={n} steps=9 "
    "loss=0.5 data_wait=0.002 compute={compute} communication=0.01 samples_per_second=64.5"
)


def metrics(**hosts):
    figures = json.dumps(hosts, separators=(",", ":"))
    head = "launcher: data_metrics host=algo-2 group=train_group"
    return f"{head} of=hosts figures={figures} final=true"


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Profile a job that ran, with other event lines of its data; None keeps its own."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    shutil.copytree(RAN, home)
    for file in home.rglob("*"):
        if file.suffix in (".json", ".log"):
            file.write_text(file.read_text().replace("{HOME}", str(home)))

    def profile(*words, lines=None, name="done-job"):
        if lines is not None:
            (log,) = (home / "jobs" / name / "logs").glob("algo-2-*.log")
            kept = [
                line
                for line in log.read_text().splitlines()
                if not re.search("launcher: data_(epoch|metrics|verdict) ", line)
            ]
            log.write_text("\n".join([*kept, *lines, ""]))
        runner = CliRunner(env={"LAUNCHER_HOME": str(home), "LAUNCHER_PRICES": None})
        arguments = ["plan", "measure", "--from-job", name, *words]
        return runner.invoke(main, arguments, catch_exceptions=False)

    return profile


@pytest.fixture
def fields(job):
    """The fields of the workload of a job with other event lines."""

    def read(*lines, words=()):
        result = job("-o", "json", *words, lines=lines)
        assert result.exit_code == 0, result.stderr
        (found,) = json.loads(result.stdout)["profiles"]
        return found

    return read


def approx(mean, low=None, high=None):
    """A measure whose range is that of a job, unless it is another one."""
    ends = {"mean": mean, "low": low or 0.85 * mean, "high": high or 1.15 * mean}
    return {name: pytest.approx(value, rel=1e-3) for name, value in ends.items()}


WORKERS = metrics(**{"algo-1": FIGURES})


def test_the_figures_are_those_of_the_workers(fields):
    found = fields(TRAIN, NEXT, WORKERS, VERDICT)

    assert approx(1.6 / 100 / 31.8).items() <= found["cpu_seconds_per_sample"].items()
    assert found["batch_size"] == 32
    assert found["bytes_per_batch"] == round(32 * 3.2e4 / 31.8)
    assert found["samples_per_epoch"] == 1590
    assert found["datasets"] == ["pipeline:train_set"]
    assert found["measured"]["job"] == "done-job"
    assert found["measured"]["longest_batch_seconds"] == 0.25
    assert found["measured"]["verdict"] == "not input-bound (1.0% waiting for data)"


@pytest.mark.parametrize(("hosts", "seconds"), [(("algo-2", "algo-3"), 0.01), (("algo-2",), None)])
def test_waits_of_ranks_on_several_hosts_are_measured_communication(fields, hosts, seconds):
    steps = [
        STEP.format(rank=rank, n=n, compute=0.05).replace("host=algo-2", f"host={host}")
        for rank, host in enumerate(hosts)
        for n in range(30)
    ]
    found = fields(TRAIN, WORKERS, *steps)
    measured = found.get("communication_seconds_per_step")
    assert measured == (seconds and dict.fromkeys(("mean", "low", "high"), seconds))


WAITS = {**FIGURES, "preparing": 6.0, "starved": 0.4}


@pytest.mark.parametrize(
    ("figures", "wait"),
    [
        (WAITS, approx((6.0 - 1.6 - 0.4) / 100 / 31.8)),
        (FIGURES, None),
        ({**WAITS, "preparing": 2.3}, None),
    ],
    ids=["they wait", "unknown", "as inexact as its parts"],
)
def test_workers_that_neither_compute_nor_want_a_cpu_wait(fields, figures, wait):
    assert fields(TRAIN, metrics(**{"algo-1": figures})).get("wait_seconds_per_sample") == wait


def test_a_short_last_batch_does_not_change_the_batch_size(fields):
    short = TRAIN.replace("samples=1590", "samples=1510 batch_size=32")  # its mean is 30.2

    assert fields(short, WORKERS)["batch_size"] == 32


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(metrics(x={"cpu": 10**400}), id="an integer that no float holds"),
        pytest.param(metrics(x=7), id="no figures"),
        pytest.param(NEXT.replace("1590", "Infinity"), id="an infinite count"),
    ],
)
def test_lines_that_are_no_events_of_launcher_change_nothing(fields, line):
    lines = [TRAIN, NEXT, WORKERS, VERDICT]

    assert fields(line, *lines) == fields(*lines)


@pytest.mark.parametrize(
    ("other", "cpu"),
    [
        (
            {**FIGURES, "cpu": 3.2},
            approx(0.024 / 31.8, 0.85 * 0.016 / 31.8, 1.15 * 0.032 / 31.8),
        ),
        (
            {**FIGURES, "batches": 0, "bytes": 0, "prepared": 0, "cpu": 0.02},
            approx(0.0162 / 31.8, high=1.15 * 0.0162 / 31.8),
        ),
    ],
    ids=["slow", "idle"],
)
def test_only_hosts_that_prepare_widen_the_range(fields, other, cpu):
    found = fields(TRAIN, metrics(**{"algo-1": FIGURES, "algo-3": other}))

    assert found["cpu_seconds_per_sample"]["high"] == cpu["high"]
    assert found["cpu_seconds_per_sample"]["mean"] == cpu["mean"]


def test_the_stream_with_most_samples_is_the_training(fields):
    test = EPOCH.format(rank=0, stream="pipeline:test_set", epoch=0, steps=4, samples=40)
    found = fields(test, TRAIN, WORKERS)

    assert found["measured"]["dataset"] == "pipeline:train_set"
    assert found["measured"]["streams"] == ["pipeline:test_set", "pipeline:train_set"]
    assert found["batch_size"] == 32


def test_repeated_samples_are_no_samples_of_the_epoch(fields):
    first = TRAIN.replace("pads=0", "pads=1")

    assert fields(first, first.replace("rank=0", "rank=1"), WORKERS)["samples_per_epoch"] == 3179


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A driver that lists one GPU."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "GPU 0: NVIDIA A10G (UUID: GPU-0a1b2c)"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


TIMES = [(0, 0.9), (0, 0.08), (0, 0.09), (1, 0.8), (1, 0.07), (1, 0.08)]  # the first warm up
STEPS = [STEP.format(n=n, rank=rank, compute=time) for n, (rank, time) in enumerate(TIMES)]
BUSY = USAGE.format(gpu=0.6)


@pytest.mark.parametrize(
    ("lines", "words", "seconds", "measured"),
    [
        ([BUSY, TRAIN, WORKERS, *STEPS], [], 0.08, 0.08),
        ([BUSY, TRAIN, NEXT, WORKERS], [], 0.02, 0.02),  # 2 s less 1 s of 50 steps
        ([BUSY, TRAIN, WORKERS], ["--step-seconds", "NVIDIA A10G=0.5"], 0.5, 0.02),
        ([USAGE.format(gpu=0.0), TRAIN, WORKERS], [], None, 0.02),
        ([BUSY, TRAIN, WORKERS], ["--batch-size", "64"], None, 0.02),
    ],
    ids=["a task", "a script", "what the user gives", "an idle GPU", "another batch size"],
)
def test_steps_give_the_seconds_of_this_machines_gpu(fields, gpu, lines, words, seconds, measured):
    found = fields(*lines, words=words)

    by_gpu = None if seconds is None else {"NVIDIA A10G": seconds}
    assert found.get("gpu_seconds_per_step") == by_gpu
    assert found["measured"]["step_seconds"] == measured


def test_the_file_of_a_job_that_ran_is_planned(job, tmp_path):
    words = ["--step-seconds", "NVIDIA T4=0.05", "--batch-size", "64", "--out", "w.yaml"]
    result = job(*words)

    assert result.exit_code == 0, result.stderr
    assert "from job done-job, of compatibility_samples:numbers together" in result.stdout
    workload = Workload.from_yaml(tmp_path / "w.yaml")
    assert workload.batch_size == 64
    assert workload.cpu_seconds_per_sample.mean == pytest.approx(0.02 / 46, rel=1e-3)
    plan = CliRunner().invoke(main, ["plan", "--workload", "w.yaml", "--limit", "1"])
    assert plan.stdout.startswith("Recommended: 1 x ml.g4dn.")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "its ranks finished no pass over a dataset"),
        ([TRAIN, VERDICT], "its ranks prepared their batches themselves"),
        ([TRAIN, metrics(**{"algo-1": {"batches": 100}})], "of a version that counted no CPU"),
        ([TRAIN, metrics(**{"algo-1": {**FIGURES, "prepared": 9}})], "prepared 9 batches, too few"),
        ([TRAIN, metrics(**{"algo-1": {**FIGURES, "cpu": 0}})], "less CPU than the kernel counts"),
        (
            [TRAIN.replace("samples=1590", "samples=0"), metrics(**{"algo-1": FIGURES})],
            "its ranks received no samples",
        ),
        ([TRAIN, metrics(**{"algo-1": {**FIGURES, "cpu": "x"}})], "of a version that counted"),
    ],
)
def test_a_job_without_such_figures_is_refused_with_the_reason(job, lines, why):
    result = job(lines=lines)

    assert result.exit_code == 2
    assert "job done-job has no figures of a sample's cost" in result.stderr
    assert why in result.stderr
    assert "launcher plan measure job.yaml" in result.stderr


def test_a_job_that_runs_is_refused(job, tmp_path):
    status = tmp_path / "home" / "jobs" / "done-job" / "status.json"
    changed = json.loads(status.read_text())
    text = json.dumps(changed).replace('"Completed"', '"InProgress"')
    status.write_text(text)
    result = job()

    assert result.exit_code == 2
    assert "done-job" in result.stderr


@pytest.mark.parametrize(
    ("name", "words", "why"),
    [
        ("nowhere", [], "'nowhere'"),
        ("done-job", ["pipeline:train_set"], "no TARGET, --task or --set"),
        ("done-job", ["--set", "max_run=5"], "--from-job takes a job that has ended: no TARGET"),
        ("done-job", ["--task", "task:make"], "no TARGET, --task or --set"),
    ],
)
def test_a_job_that_is_nowhere_or_would_be_changed_is_refused(job, name, words, why):
    result = job(*words, name=name)

    assert result.exit_code == 2
    assert why in result.stderr

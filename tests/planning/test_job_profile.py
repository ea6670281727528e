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


def fields_of(result):
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["profiles"]
    return found


def test_the_figures_are_those_of_the_workers(job):
    lines = [TRAIN, NEXT, metrics(**{"algo-1": FIGURES}), VERDICT]
    found = fields_of(job("-o", "json", lines=lines))

    cpu = found["cpu_seconds_per_sample"]
    assert cpu["mean"] == pytest.approx(1.6 / 100 / 31.8, rel=1e-3)
    assert cpu["low"] == pytest.approx(0.85 * cpu["mean"], rel=1e-3)
    assert cpu["high"] == pytest.approx(1.15 * cpu["mean"], rel=1e-3)
    assert found["batch_size"] == 32
    assert found["bytes_per_batch"] == round(32 * 3.2e4 / 31.8)
    assert found["samples_per_epoch"] == 1590
    assert found["datasets"] == ["pipeline:train_set"]
    assert found["measured"]["job"] == "done-job"
    assert found["measured"]["longest_batch_seconds"] == 0.25
    assert found["measured"]["verdict"] == "not input-bound (1.0% waiting for data)"


WAITS = {**FIGURES, "preparing": 6.0, "starved": 0.4}


def test_workers_that_neither_compute_nor_want_a_cpu_wait(job):
    found = fields_of(job("-o", "json", lines=[TRAIN, metrics(**{"algo-1": WAITS})]))

    wait = found["wait_seconds_per_sample"]
    assert wait["mean"] == pytest.approx((6.0 - 1.6 - 0.4) / 100 / 31.8, rel=1e-3)
    assert wait["low"] == pytest.approx(0.85 * wait["mean"], rel=1e-3)
    assert wait["high"] == pytest.approx(1.15 * wait["mean"], rel=1e-3)


@pytest.mark.parametrize(
    "figures", [FIGURES, {**WAITS, "preparing": 2.3}], ids=["unknown", "as inexact as its parts"]
)
def test_workers_that_only_compute_have_no_wait(job, figures):
    found = fields_of(job("-o", "json", lines=[TRAIN, metrics(**{"algo-1": figures})]))

    assert "wait_seconds_per_sample" not in found


def test_a_short_last_batch_does_not_change_the_batch_size(job):
    short = TRAIN.replace("samples=1590", "samples=1510 batch_size=32")  # its mean is 30.2
    found = fields_of(job("-o", "json", lines=[short, metrics(**{"algo-1": FIGURES})]))

    assert found["batch_size"] == 32


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(metrics(x={"cpu": 10**400}), id="an integer that no float holds"),
        pytest.param(metrics(x=7), id="no figures"),
        pytest.param(NEXT.replace("1590", "Infinity"), id="an infinite count"),
    ],
)
def test_lines_that_are_no_events_of_launcher_change_nothing(job, line):
    lines = [TRAIN, NEXT, metrics(**{"algo-1": FIGURES}), VERDICT]
    found = fields_of(job("-o", "json", lines=[line, *lines]))
    assert found == fields_of(job("-o", "json", lines=lines))


def test_hosts_that_differ_widen_the_range(job):
    slow = {**FIGURES, "cpu": 3.2}
    found = fields_of(
        job("-o", "json", lines=[TRAIN, metrics(**{"algo-1": FIGURES, "algo-3": slow})])
    )

    cpu = found["cpu_seconds_per_sample"]
    assert cpu["mean"] == pytest.approx(0.024 / 31.8, rel=1e-3)
    assert cpu["low"] == pytest.approx(0.85 * 0.016 / 31.8, rel=1e-3)
    assert cpu["high"] == pytest.approx(1.15 * 0.032 / 31.8, rel=1e-3)


def test_a_host_that_prepared_nothing_does_not_widen_the_range(job):
    idle = {**FIGURES, "batches": 0, "bytes": 0, "prepared": 0, "cpu": 0.02}
    found = fields_of(
        job("-o", "json", lines=[TRAIN, metrics(**{"algo-1": FIGURES, "algo-3": idle})])
    )

    cpu = found["cpu_seconds_per_sample"]
    assert cpu["high"] == pytest.approx(1.15 * 0.0162 / 31.8, rel=1e-3)


def test_the_stream_with_most_samples_is_the_training(job):
    test = EPOCH.format(rank=0, stream="pipeline:test_set", epoch=0, steps=4, samples=40)
    found = fields_of(job("-o", "json", lines=[test, TRAIN, metrics(**{"algo-1": FIGURES})]))

    assert found["measured"]["dataset"] == "pipeline:train_set"
    assert found["measured"]["streams"] == ["pipeline:test_set", "pipeline:train_set"]
    assert found["batch_size"] == 32


def test_repeated_samples_are_no_samples_of_the_epoch(job):
    ranks = [TRAIN.replace("pads=0", "pads=1"), TRAIN.replace("pads=0", "pads=1")]
    lines = [ranks[0], ranks[1].replace("rank=0", "rank=1"), metrics(**{"algo-1": FIGURES})]
    found = fields_of(job("-o", "json", lines=lines))

    assert found["samples_per_epoch"] == 2 * 1590 - 1


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A driver that lists one GPU."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "GPU 0: NVIDIA A10G (UUID: GPU-0a1b2c)"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_steps_of_a_task_give_the_seconds_of_this_machines_gpu(job, gpu):
    times = [(0, 0.9), (0, 0.08), (0, 0.09), (1, 0.8), (1, 0.07), (1, 0.08)]  # the first warm up
    steps = [STEP.format(n=n, rank=rank, compute=time) for n, (rank, time) in enumerate(times)]
    lines = [USAGE.format(gpu=0.6), TRAIN, metrics(**{"algo-1": FIGURES}), *steps]
    found = fields_of(job("-o", "json", lines=lines))

    assert found["gpu_seconds_per_step"] == {"NVIDIA A10G": 0.08}
    assert found["measured"]["step_seconds"] == 0.08


def test_a_script_has_the_time_between_its_batches(job, gpu):
    lines = [USAGE.format(gpu=0.6), TRAIN, NEXT, metrics(**{"algo-1": FIGURES})]
    found = fields_of(job("-o", "json", lines=lines))

    assert found["gpu_seconds_per_step"] == {"NVIDIA A10G": 0.02}  # 2 s less 1 s of 50 steps


def test_what_the_user_gives_replaces_what_the_job_measured(job, gpu):
    lines = [USAGE.format(gpu=0.6), TRAIN, metrics(**{"algo-1": FIGURES})]
    found = fields_of(job("-o", "json", "--step-seconds", "NVIDIA A10G=0.5", lines=lines))

    assert found["gpu_seconds_per_step"] == {"NVIDIA A10G": 0.5}


@pytest.mark.parametrize(
    ("usage", "words"),
    [(USAGE.format(gpu=0.0), []), (USAGE.format(gpu=0.6), ["--batch-size", "64"])],
    ids=["an idle GPU", "another batch size"],
)
def test_steps_that_say_nothing_about_the_gpu_are_only_recorded(job, gpu, usage, words):
    lines = [usage, TRAIN, metrics(**{"algo-1": FIGURES})]
    found = fields_of(job("-o", "json", *words, lines=lines))

    assert "gpu_seconds_per_step" not in found
    assert found["measured"]["step_seconds"] == 0.02


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


def test_a_job_that_is_nowhere_is_refused(job):
    result = job(name="nowhere")

    assert result.exit_code == 2
    assert "'nowhere'" in result.stderr


@pytest.mark.parametrize(
    "words", [["pipeline:train_set"], ["--set", "max_run=5"], ["--task", "task:make"]]
)
def test_a_job_that_ran_is_not_changed(job, words):
    result = job(*words)

    assert result.exit_code == 2
    assert "--from-job takes a job that has ended: no TARGET, --task or --set" in result.stderr

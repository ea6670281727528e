"""The state of a running job, from its hosts' events, in lines for a terminal and for a log."""

from datetime import datetime, timedelta, timezone

import pytest

from launcher.client.cli import terminal_lines
from launcher.client.jobs import HostGroup, JobScreen, LogLine
from launcher.shared import format_event

GROUPS = [
    HostGroup(name="data", instance_type="ml.c5.xlarge", hosts=("algo-1", "algo-2")),
    HostGroup(name="train", instance_type="ml.g5.xlarge", hosts=("algo-3",)),
]


@pytest.fixture
def screen():
    return JobScreen(GROUPS)


def tell(screen, name, host="algo-3", time=0.0, **fields):
    screen.take(LogLine(group="train", host=host, text=format_event(name, **fields), time=time))


def now():
    started = datetime.now(timezone.utc) - timedelta(seconds=72)
    return {"SecondaryStatus": "Training", "CreationTime": started, "TrainingStartTime": started}


def lines(screen, width=120, dollars=None):
    screen.dollars = dollars
    return terminal_lines(screen.shown(now()), width)


def test_before_a_host_has_reported(screen):
    assert lines(screen) == ["Training  1m12s", "data: 2 hosts", "train: 1 host"]


def test_a_script_that_reads(screen):
    tell(screen, "host_usage", "algo-1", cpu=0.9)
    tell(screen, "host_usage", "algo-2", cpu=1.0)
    fields = {"epoch": 3, "step": 120, "steps": 400, "wait_seconds": 0.3, "total_seconds": 10.0}
    tell(screen, "data_progress", **fields)
    head, data, train = lines(screen, dollars=lambda seconds: 0.25)
    assert head == (
        "Training  1m12s  epoch 3  step 120/400  12 steps/s  3% waiting for data  23s left  $0.25"
    )
    assert (data, train) == ("data: 2 hosts  CPU 95%", "train: 1 host")
    tell(screen, "data_progress", **fields | {"steps": None})
    assert "step 120  12 steps/s  3% waiting for data" in lines(screen)[0]
    assert lines(screen, dollars=lambda _: None)[0].endswith("waiting for data")


def test_a_host_with_gpus(screen):
    tell(screen, "host_usage", "algo-3", cpu=0.2, gpu=0.85, gpu_memory_bytes=1)
    assert lines(screen)[1:] == ["data: 2 hosts", "train: 1 host  CPU 20%  GPU 85%"]


def test_a_task_whose_trainer_reports_each_step(screen):
    fields = {"epoch": 0, "steps": 100, "data_wait": 0.01}
    tell(screen, "train_step", rank=0, step=10, time=5.0, **fields)
    tell(screen, "train_step", rank=1, step=12, time=5.5, **fields)
    tell(screen, "train_step", rank=0, step=30, time=10.0, **fields)
    tell(screen, "data_progress", epoch=0, step=1, steps=2, wait_seconds=0, total_seconds=1)
    assert "epoch 0  step 30/100  4 steps/s  4% waiting for data  17s left" in lines(screen)[0]


def test_ranks_that_return_to_a_checkpoint_have_no_speed_until_they_go_on(screen):
    fields = {"epoch": 0, "steps": 100, "data_wait": 0.01, "rank": 0}
    for step, time in ((50, 5.0), (60, 10.0), (20, 30.0)):
        tell(screen, "train_step", step=step, time=time, **fields)
    assert lines(screen)[0] == "Training  1m12s  epoch 0  step 20/100"
    tell(screen, "train_step", step=40, time=40.0, **fields)
    assert "step 40/100  2 steps/s  2% waiting for data  30s left" in lines(screen)[0]


def test_another_attempt_may_report_by_another_rank(screen):
    fields = {"epoch": 0, "steps": 100, "data_wait": 0.01}
    tell(screen, "train_step", rank=3, step=50, time=5.0, **fields)
    tell(screen, "host_started", role="train", pid=7)
    tell(screen, "train_step", rank=0, step=20, time=90.0, **fields)
    tell(screen, "train_step", rank=0, step=30, time=95.0, **fields)
    assert "step 30/100  2 steps/s" in lines(screen)[0]


def test_open_lines_are_the_latest_of_each_program(screen):
    tell(screen, "progress", source="rank 0", text=" 10%|#")
    tell(screen, "progress", source="rank 1", text="\x1b[31m 20%|##\x1b[2J")
    tell(screen, "progress", source="rank 0", text=" 30%|###")
    assert lines(screen)[3:] == ["train/algo-3 | 20%|##\\x1b[2J", "train/algo-3 | 30%|###"]
    tell(screen, "progress", source="rank 1", text="")
    assert lines(screen)[3:] == ["train/algo-3 | 30%|###"]
    tell(screen, "host_ended")
    assert lines(screen)[3:] == []


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_longer_than_the_terminal(screen, width):
    from rich.cells import cell_len

    tell(screen, "progress", source="", text="音" * 100)
    shown = lines(screen, width)
    assert max(map(cell_len, shown)) <= width
    assert shown[-1].endswith("…")


def test_a_rank_that_failed_is_known_until_its_host_has_failed(screen):
    tell(screen, "rank_failed", rank=1, cause="ValueError: no")
    tell(screen, "rank_failed", rank=0, cause="peer lost")
    assert screen.failure == "algo-3, rank 1: ValueError: no"
    tell(screen, "host_failed", cause="ValueError: no")
    assert screen.failure is None


@pytest.mark.parametrize("fields", [{}, {"epoch": "x"}, {"epoch": 1, "step": 1, "steps": 1}])
def test_events_of_another_version_change_nothing(screen, fields):
    for name in ("train_step", "data_progress", "host_usage", "progress", "unknown"):
        tell(screen, name, **fields)
    assert lines(screen) == ["Training  1m12s", "data: 2 hosts", "train: 1 host"]


def test_what_hosts_do_before_they_train(screen):
    tell(screen, "requirements_started", "algo-1", file="requirements.txt")
    assert lines(screen)[0] == "Training  1m12s  algo-1: installing requirements.txt"
    tell(screen, "requirements_installed", "algo-1", file="requirements.txt", seconds=1.0)
    assert lines(screen)[0] == "Training  1m12s"
    for host in ("algo-2", "algo-3"):
        tell(screen, "host_phase", host, doing="importing torch")
    tell(screen, "host_phase", "algo-1", doing="waiting for algo-3")
    shown = "Training  1m12s  algo-2 and 1 more: importing torch"
    assert screen.shown(now()).sentence.startswith(shown)
    tell(screen, "host_ended", "algo-2", because="done")
    tell(screen, "host_phase", "algo-3", doing="")
    assert lines(screen)[0] == "Training  1m12s  algo-1: waiting for algo-3"
    tell(screen, "host_phase", "algo-9", doing="unknown")
    fields = {"epoch": 0, "step": 1, "steps": 4, "wait_seconds": 0, "total_seconds": 1}
    tell(screen, "data_progress", **fields)
    assert "algo-1" not in lines(screen)[0]


def test_a_log_gets_one_line(screen):
    assert screen.shown(now()).sentence == "Training  1m12s; data: 2 hosts; train: 1 host"

"""launcher plan cut: a model is cut, and what is in the file is shown."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_up_partition import made_up
from programs import TASK, write_task
from waiting import wait_until

from launcher import Partition
from launcher.shared import Tie

ASKED = ("--partitions", 2, "--microbatches", 4, "--profile", "estimated", "--bandwidth", "1GiB/s")
#: Starts a program that goes on, says who both are, and waits.
WAITS = """
import os, subprocess, sys, time
from pathlib import Path
wait = "import time\\nwhile True: time.sleep(60)"
def make(pids):
    child = subprocess.Popen([sys.executable, "-c", wait])
    Path(pids + ".draft").write_text(f"{os.getpid()} {child.pid}")
    os.rename(pids + ".draft", pids)
    exec(wait)
"""


@pytest.fixture
def file(terminal):
    path = terminal.folder / "partition.json"
    found = made_up()
    replace(found, bound=found.step).write(path)
    return path


def rows(text):
    """The cells of each line of the tables, which two blanks or more separate."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def left_in(folder):
    """The names in a folder, but for the user's modules, and caches of Python and torch."""
    caches = ("__pycache__", "torchinductor_")
    return [p.name for p in folder.iterdir() if p.suffix != ".py" and not p.name.startswith(caches)]


# With a real model --------------------------------------------------------------------------------


@pytest.mark.long
def test_a_model_is_cut_and_a_job_can_take_the_file(terminal):
    pytest.importorskip("torch")
    write_task(terminal.folder)
    out = terminal.folder / "cuts.json"
    result = terminal(
        "plan", "cut", "task:make", "--source-dir", terminal.folder, *ASKED, "-o", out,
        "--set", "layers=4", "--memory-cap", "1MiB", "--latency", "1us",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    partition = Partition.read(out)
    assert (partition.partitions, partition.microbatches, len(partition.modules)) == (2, 4, 4)
    assert (partition.memory_cap, partition.profile) == (2**20, "estimated")
    assert (partition.link.bandwidth, partition.link.latency) == (2**30, 1e-6)
    assert result.stdout == f"{partition}\n"
    assert "estimated profile of 288 parameters" in result.stderr
    assert "data_epoch" not in result.stderr
    assert f"distribution: {{model_parallel: {{partition_file: {out.name}}}}}" in result.stderr
    assert left_in(terminal.folder) == ["cuts.json"]


@pytest.mark.long
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_ctrl_c_leaves_no_process_and_no_file(terminal, tmp_path, number):
    pytest.importorskip("torch")
    write_task(terminal.folder, WAITS)
    scratch, pids = tmp_path / "scratch", tmp_path / "pids"
    scratch.mkdir()
    terminal.environment["TMPDIR"] = str(scratch)
    process = terminal.start(
        "plan", "cut", "task:make", "--source-dir", terminal.folder, *ASKED,
        "-o", terminal.folder / "partition.json", "--set", f"pids={pids}",
    )  # fmt: skip
    try:
        wait_until(lambda: pids.exists() or process.poll() is not None)
        started = [int(pid) for pid in pids.read_text().split()]
        assert all(map(is_running, started))
        process.send_signal(number)
        process.communicate(timeout=540)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    wait_until(lambda: not any(map(is_running, started)))
    assert left_in(terminal.folder) == []
    assert left_in(scratch) == []


#: When the verb is killed: the task, and what it prints at that moment.
MOMENTS = {
    "as soon as its process has started": (TASK, ""),
    "while the user's code runs": (WAITS, ""),
    "while it measures the link": (TASK, "the link between two processes of this machine"),
}


@pytest.mark.long
@pytest.mark.parametrize("moment", list(MOMENTS))
def test_a_kill_leaves_no_process_and_no_file(terminal, tmp_path, moment):
    pytest.importorskip("torch")
    task, sign = MOMENTS[moment]
    write_task(terminal.folder, task)
    scratch, pids, mark = tmp_path / "scratch", tmp_path / "pids", f"LAUNCHER_TEST={tmp_path}"
    scratch.mkdir()
    terminal.environment |= {"TMPDIR": str(scratch), "LAUNCHER_TEST": str(tmp_path)}
    process = terminal.start(
        "plan", "cut", "task:make", "--source-dir", terminal.folder, *ASKED[:6],
        "-o", terminal.folder / "partition.json",
        *(("--set", f"pids={pids}") if task is WAITS else ()),
    )  # fmt: skip
    try:
        if sign:
            terminal.wait_for(process.stderr, sign)
        elif task is WAITS:
            wait_until(lambda: pids.exists() or process.poll() is not None)
        else:
            wait_until(lambda: len(marked(mark)) > 1 or process.poll() is not None)
        assert len(marked(mark)) > 1
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not marked(mark))
    assert left_in(terminal.folder) == []
    assert left_in(scratch) == []


def marked(mark):
    """The processes with an entry in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def is_running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


# What is refused before anything starts -----------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'TASK'"),
        (["task:make", "--partitions", 2], "Missing option '--microbatches'"),
        (["task:make", *ASKED, "--optimize", "sped"], "'sped'"),
        (["task:make", *ASKED, "--set", "width"], "'width' is not NAME=VALUE"),
        (["task:make", *ASKED, "--set", "width=["], "is not YAML"),
        (["task:make", *ASKED, "--out", "absent/p.json"], "absent is not a writable folder"),
        (["tusk:make", *ASKED], 'there is no module "tusk"'),
        (["task:make", *ASKED, "--memory-cap", "40GB!"], "where: memory_cap"),
        (["show"], "Missing argument 'FILE'"),
        (["show", "absent.json"], "'absent.json' does not exist"),
    ],
)
def test_a_wrong_command_is_refused_at_once(terminal, monkeypatch, words, said):
    write_task(terminal.folder)
    monkeypatch.chdir(terminal.folder)
    result = terminal("plan", "cut", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
    assert [path.name for path in terminal.folder.iterdir()] == ["task.py"]


def test_an_error_is_json_too(terminal):
    result = terminal("plan", "cut", "tusk:make", *ASKED, "--memory-cap", "x", "--json")
    answer = json.loads(result.stdout)
    assert answer["exit_code"] == result.exit_code == 2
    wheres = {problem["where"] for problem in answer["error"]["problems"]}
    assert wheres == {"task", "memory_cap"}


def test_the_help_explains_both(terminal):
    said = terminal("plan", "cut", "--help").stdout
    assert "--microbatches" in said
    assert "launcher plan cut show" in said
    assert "--svg" in terminal("plan", "cut", "show", "--help").stdout


# What a file says ---------------------------------------------------------------------------------


def test_the_stages_are_shown_with_what_would_change(terminal, file):
    result = terminal("plan", "cut", "show", file)
    assert result.exit_code == 0
    head, first, second, _, *rest = rows(result.stdout)
    assert dict(zip(head, first, strict=True)) == {
        "stage": "0", "rank": "0", "begins at": "blocks.0", "modules": "2",
        "forward": "10.0 ms", "backward": "20.0 ms", "sending": "1.00 ms",
        "memory": "300 MiB", "sent": "4.00 MiB", "in flight": "2",
    }  # fmt: skip
    assert second[2] == "blocks.2"
    assert second[-1] == "1"
    assert "155 ms ± 2.00 ms, 20 % idle, for 4 microbatches" in result.stdout
    assert "proven: no other cuts have a shorter step" in result.stdout
    assert ["instead", "memory", "2", "4", "170 ms", "42.5 ms", "280 MiB"] in rest
    assert ["instead", "speed", "4", "4", "does not fit"] in rest


def test_a_search_reports_its_distance_from_the_optimum(terminal, file):
    found = made_up(virtual_stages=2, memory_cap=2**30, recomputed=("blocks",))
    replace(found, gap=0.012, bound=found.step / 1.012).write(file)
    said = terminal("plan", "cut", "show", file).stdout
    assert "not proven: the best that a search found, at most 1.2 % above the optimum" in said
    assert "of 1.00 GiB" in said  # and two stages of a rank together
    together = max(sum(each.memory for each in found.stages[rank::2]) for rank in (0, 1))
    assert f"{together // 2**20} MiB on the largest rank" in said
    assert "blocks recomputed" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": "memory"}, "proven: no other cuts need less memory on the largest rank"),
        ({"memory_cap": 2**30}, "proven: no other cuts have a shorter step within the memory"),
        (
            {"objective": "memory", "memory_gap": 0.03},
            "not proven: a search found them, at most 3.0 % above the least memory",
        ),
        ({"bound": None}, "not proven: of an older Launcher, or edited"),
        ({"gap": 0.0000001}, "at most 0.1 % above"),
    ],
    ids=str,
)
def test_the_proof_of_the_cuts_is_shown(terminal, file, changes, said):
    found = made_up()
    gap = changes.get("gap", 0.0)
    replace(found, **{"bound": found.step / (1 + gap), **changes}).write(file)
    assert said in terminal("plan", "cut", "show", file).stdout


def test_edited_starts_are_shown_without_a_proof(terminal, file):
    raw = json.loads(file.read_text())
    file.write_text(json.dumps({**raw, "starts": ["blocks.3"]}))
    result = terminal("plan", "cut", "show", file)
    assert result.exit_code == 0
    assert "not proven" in result.stdout
    assert "blocks.3" in result.stdout


def test_exchanges_of_gradients_are_shown_and_drawn(terminal, file):
    found = made_up(
        replicas=2,
        modules=tuple(replace(each, gradients=4 * 2**20) for each in made_up().modules),
        ties=(Tie(modules=(0, 3), gradients=2**20),),
    )
    found.write(file)
    svg = terminal.folder / "step.svg"
    result = terminal("plan", "cut", "show", file, "--svg", svg)
    assert "Replicas 2, which exchange gradients for 2.00 ms in each step" in result.stdout
    texts = [each.text for each in ElementTree.parse(svg).iter() if each.text]
    assert "exchange of gradients" in texts
    assert "exchange of gradients with replicas, 155 ms to 157 ms" in texts
    assert "exchange of gradients with stages with tied parameters, 155 ms to 155 ms" in texts


def test_the_file_and_what_follows_as_json(terminal, file):
    said = json.loads(terminal("plan", "cut", "show", file, "--json").stdout)
    assert said["stages"][1]["start"] == "blocks.2"
    assert said["idle"] == pytest.approx(1 - 4 * 31 / 155)
    assert said["in_flight"] == [2, 1]


def test_a_step_is_drawn(terminal, file):
    svg = terminal.folder / "step.svg"
    result = terminal("plan", "cut", "show", file, "--svg", svg)
    assert result.exit_code == 0
    assert str(svg) in result.stderr
    texts = [each.text for each in ElementTree.parse(svg).iter() if each.text]
    assert any("task:make in 2 stages, 4 microbatches" in text for text in texts)
    assert "backward: microbatch 3, stage 0, 134 ms to 155 ms" in texts


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 7}, "it is of version 7"),
        ({"schedule": "gpipe"}, "schedule is 'gpipe'"),
        ({"partitions": 3}, "there are 1 starts, and 3 stages need 2"),
    ],
)
def test_a_file_that_is_wrong_is_refused(terminal, file, change, said):
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    result = terminal("plan", "cut", "show", file)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""

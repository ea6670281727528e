"""launcher.partition: what it refuses at once, and what the process that it starts refuses."""

from __future__ import annotations

import sys

import pytest
from programs import write_task

import launcher
from launcher import ParallelError, PlatformError, SpecError

GIVEN = {"partitions": 2, "microbatches": 4, "profile": "estimated", "bandwidth": "1GiB/s"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_task(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("task", "changes", "wheres"),
    [
        ("task", {}, ["task"]),
        ("tusk:make", {}, ["task"]),
        ("task:mak", {}, ["task"]),
        ("task:make", {"partitions": 0}, ["partitions"]),
        ("task:make", {"partitions": "2"}, ["partitions"]),
        ("task:make", {"microbatches": 1}, ["microbatches"]),
        ("task:make", {"virtual_stages": 2, "schedule": "simple"}, ["virtual_stages"]),
        ("task:make", {"schedule": "gpipe", "precision": "fp8"}, ["precision", "schedule"]),
        ("task:make", {"recomputed": ["a", "a"]}, ["recomputed[0]"]),
        ("task:make", {"hyperparameters": {"width": object()}}, ["hyperparameters.width"]),
        ("task:make", {"replicas": 0}, ["replicas"]),
        ("task:make", {"shard_degree": 0}, ["shard_degree"]),
        ("task:make", {"replicas": 4, "shard_degree": 3}, ["shard_degree"]),
        ("task:make", {"optimize": "sped", "profile": "guessed"}, ["optimize", "profile"]),
        ("task:make", {"memory_cap": "40 gigs"}, ["memory_cap"]),
        ("task:make", {"memory_cap": 0}, ["memory_cap"]),
        ("task:make", {"bandwidth": "fast", "latency": "20 GiB"}, ["bandwidth", "latency"]),
        ("task:make", {"bandwidth": None, "latency": 1e-6}, ["latency"]),
    ],
)
def test_arguments_that_are_wrong_are_reported_at_once(folder, task, changes, wheres):
    with pytest.raises(SpecError) as caught:
        launcher.partition(task, **{**GIVEN, **changes})
    assert sorted(problem.where for problem in caught.value.problems) == wheres


def test_a_folder_that_is_not_there(folder):
    with pytest.raises(SpecError, match="nowhere"):
        launcher.partition("task:make", **GIVEN, source_dir="nowhere")


def test_without_torch_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    with pytest.raises(PlatformError, match=r"pip install 'hetero-launcher\[torch\]'"):
        launcher.partition("task:make", **GIVEN)


@pytest.mark.long
def test_a_refusal_is_an_error_with_the_process_own_words(folder, capfd):
    pytest.importorskip("torch")
    write_task(folder, "def make():\n    print('made')\n    return 1\n")
    with pytest.raises(ParallelError, match=r"^the task task:make returned a int") as caught:
        launcher.partition("task:make", **GIVEN)
    said = capfd.readouterr()
    assert said.err == "made\n"
    assert str(caught.value) not in said.err
    assert said.out == ""


@pytest.mark.slow
def test_a_model_that_does_not_fit_is_refused(folder, capfd):
    pytest.importorskip("torch")
    with pytest.raises(ParallelError, match=r"bytes per rank, but the cap is 100"):
        launcher.partition("task:make", **GIVEN, memory_cap=100)
    assert "profile of 432 parameters" in capfd.readouterr().err


@pytest.mark.slow
def test_an_error_of_the_task_is_reported_with_its_line_and_a_launcher_py_hides_nothing(
    folder, capfd
):
    pytest.importorskip("torch")
    write_task(folder, "def make():\n    return {}['absent']\n")
    (folder / "launcher.py").write_text("raise SystemExit('the wrong one')\n")
    with pytest.raises(ParallelError, match=r"KeyError: 'absent'"):
        launcher.partition("task:make", **GIVEN)
    assert 'task.py", line 2' in capfd.readouterr().err


@pytest.mark.slow
def test_a_killed_process_is_reported(folder):
    pytest.importorskip("torch")
    write_task(folder, "import os\ndef make():\n    os.kill(os.getpid(), 9)\n")
    with pytest.raises(ParallelError, match="was killed"):
        launcher.partition("task:make", **GIVEN)

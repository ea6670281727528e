"""The main job of the product, from its job file to its model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from digits_example import DIGITS, ONE_TRAIN_HOST, Example, Run, finish
from waiting import wait_until

from launcher.shared import parse_event

#: The example shortened to what shows that two runs are the same.
SHORT = ("--set", "hyperparameters.epochs=2", "--set", "entry_point=witness.py")
DATA_HOSTS = "instance_groups.data_group.instance_count"
#: One host of each group, for what more of them do alike.
FEW = ("--set", f"{DATA_HOSTS}=1", "--set", "instance_groups.train_group.instance_count=1")


@pytest.mark.long
def test_the_example_trains_and_its_summary_is_complete(whole_example: Example) -> None:
    run = whole_example.run("job.yaml")
    assert run.code == 0, run.talk
    summary = run.summary
    assert (summary["status"], summary["secondary_status"]) == ("Completed", "Completed")
    assert summary["failure_reason"] is None
    assert [(g["name"], g["role"], g["hosts"]) for g in summary["groups"]] == [
        ("data_group", "data", ["algo-1", "algo-2"]),
        ("train_group", "train", ["algo-3", "algo-4"]),
    ]
    assert all(group["billable_seconds"] > 0 for group in summary["groups"])
    prepared, received = summary["data"]["batches_by_host"], summary["data"]["batches_received"]
    assert set(prepared) == {"algo-1", "algo-2"}
    assert sum(prepared.values()) == sum(received.values()) == 2 * (6 * 23 + 6)
    assert 0 < summary["data"]["wait_share"] < 1
    assert summary["metrics"]["test_accuracy"] >= 0.95
    assert accuracy_of(run, whole_example) == pytest.approx(
        summary["metrics"]["test_accuracy"],
        abs=1 / 360,  # batches of other sizes round differently
    )


@pytest.mark.long
def test_the_example_of_the_readme_runs(example: Example) -> None:
    readme = (DIGITS.parents[1] / "README.md").read_text()
    submitting, loading = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
    assert loading.splitlines()[-1] in (example.folder / "train.py").read_text()
    script = submitting.replace("examples/digits", str(example.folder))
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=example.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "test_accuracy=" in run.stdout
    assert "[Completed]" in run.stdout


def accuracy_of(run: Run, example: Example) -> float:
    """Load the saved model by the example's own class, and evaluate it on the held-back images."""
    program = """
import os, sys, torch
os.environ["SM_CHANNEL_DIGITS"] = "data"
import pipeline, train
model = train.Net().eval()
model.load_state_dict(torch.load(sys.argv[1], weights_only=True))
images, labels = zip(*(pipeline.test_set()[i] for i in range(len(pipeline.test_set()))))
answers = model(torch.stack([torch.from_numpy(image) for image in images])).argmax(dim=1)
print((answers == torch.tensor(labels)).float().mean().item())
"""
    result = subprocess.run(
        [sys.executable, "-c", program, str(run.model_file)],
        cwd=example.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(result.stdout)


@pytest.fixture(scope="module")
def without_data_hosts(shared_example: Example) -> Run:
    run = shared_example.run("job-homogeneous.yaml", *SHORT, *ONE_TRAIN_HOST)
    assert run.code == 0, run.talk
    assert len(run.hashes) == 2 * 3  # two ranks; two passes over the training set, one test
    assert len(run.losses) == 2 * 2
    return run


@pytest.mark.long
@pytest.mark.parametrize("hosts", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_same_training_on_every_cluster(
    example: Example, without_data_hosts: Run, hosts: int
) -> None:
    """Data hosts or none: the same bytes, losses and weights, dropout and all."""
    import torch

    run = example.run("job.yaml", *SHORT, *ONE_TRAIN_HOST, "--set", f"{DATA_HOSTS}={hosts}")
    assert run.code == 0, run.talk
    assert run.hashes == without_data_hosts.hashes
    assert run.losses == without_data_hosts.losses
    expected = without_data_hosts.weights()
    weights = run.weights()
    assert weights.keys() == expected.keys()
    for name in weights:
        assert torch.equal(weights[name], expected[name]), name


@pytest.mark.slow
def test_a_killed_worker_that_held_leases_changes_nothing(example: Example) -> None:
    pipeline = (example.folder / "pipeline.py").read_text()
    load = "file = self.files[index]"
    slow = pipeline.replace(load, f'{load}; __import__("time").sleep(0.004)')
    (example.folder / "pipeline.py").write_text(slow)
    calm = example.run("job.yaml", *SHORT, "--name", "calm")
    assert calm.code == 0, calm.talk

    process = example.start("job.yaml", *SHORT, "--name", "disturbed")
    wait_until(lambda: "data_epoch" in log_of(example, "disturbed", "algo-3"))
    victim = example.processes("disturbed", "launcher.data.worker")[0]
    os.kill(victim, signal.SIGKILL)
    disturbed = Run(example, *finish(process))

    assert disturbed.code == 0, disturbed.talk
    left = events(log_of(example, "disturbed", "algo-3"), "worker_left")
    assert left[0]["leases"], "the worker that was killed first held leases"
    assert disturbed.hashes == calm.hashes
    assert disturbed.losses == calm.losses


@pytest.mark.slow
def test_a_killed_rank_fails_the_job_and_leaves_nothing(example: Example) -> None:
    process = example.start("job.yaml", "--name", "killed", "--set", "hyperparameters.epochs=500")
    wait_until(lambda: "train_loss" in log_of(example, "killed", "algo-4"))
    for pid in example.processes("killed", "launcher.runtime.launch.rank"):
        if b"\0RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes():
            os.kill(pid, signal.SIGKILL)
    run = Run(example, *finish(process))
    assert run.code == 1
    assert run.summary["status"] == "Failed"
    reason = run.summary["failure_reason"]
    assert reason.startswith("host algo-4 (train_group), rank 1: killed by SIGKILL")
    assert example.processes("killed", "") == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("raise ValueError('no such digit')", ["ValueError: no such digit", "line 2, in <module>"]),
        ("import sys; sys.exit(3)", ["the script called sys.exit(3)"]),
    ],
    ids=["exception", "sys.exit"],
)
def test_a_script_that_fails_reports_it(example: Example, line: str, reason: list[str]) -> None:
    (example.folder / "bad.py").write_text(f"import os\n{line}\n")
    run = example.run("job.yaml", "--set", "entry_point=bad.py", *FEW)
    assert run.code == 1
    assert all(part in run.summary["failure_reason"] for part in reason), run.summary


#: A data host's worker stops itself before its first line: declared, not reachable.
STOPS_ITSELF = """import os, signal, sys

if "launcher.data.worker" in sys.orig_argv:
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.long
def test_data_hosts_that_never_come_fail_the_job(example: Example) -> None:
    (example.folder / "sitecustomize.py").write_text(STOPS_ITSELF)
    run = example.run(
        *("job.yaml", *SHORT, *ONE_TRAIN_HOST),
        *("--set", "data_service.start_timeout=8", "--set", "data_service.workers_per_host=1"),
    )
    assert run.code == 1
    assert "DataServiceUnavailable" in run.summary["failure_reason"]
    assert "data hosts: algo-1, algo-2" in run.summary["failure_reason"]
    assert run.hashes == set()


@pytest.mark.long
def test_a_script_called_launcher_py_works(example: Example) -> None:
    (example.folder / "train.py").rename(example.folder / "launcher.py")
    script = ("--set", "entry_point=launcher.py", "--set", "hyperparameters.epochs=1")
    run = example.run("job.yaml", *script, *FEW)
    assert run.code == 0, run.talk


@pytest.mark.long
def test_the_dry_run_prints_the_request_and_starts_nothing(example: Example) -> None:
    job = ("run", str(example.folder / "job.yaml"), "--dry-run", "--name", "dry", "-o", "json")
    code, answer = ask(example, *job)
    assert code == 2
    assert [problem["where"] for problem in answer["error"]["problems"]] == [
        "inputs.digits.s3_data"
    ]

    code, request = ask(example, *job, "--set", "inputs.digits.s3_data=s3://my-bucket/digits")
    assert code == 0
    assert request["TrainingJobName"] == "dry"
    assert [g["InstanceGroupName"] for g in request["ResourceConfig"]["InstanceGroups"]] == [
        "data_group",
        "train_group",
    ]
    routed = {c["ChannelName"]: c["DataSource"]["S3DataSource"] for c in request["InputDataConfig"]}
    assert routed["digits"]["InstanceGroupNames"] == ["data_group"]
    assert routed["code"]["InstanceGroupNames"] == ["data_group", "train_group"]
    assert ask(example, "list", "-o", "json") == (0, {"jobs": []})


def ask(example: Example, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the JSON object of a verb."""
    command = example.command(*arguments)
    result = subprocess.run(command, env=example.environment, capture_output=True, check=False)
    return result.returncode, json.loads(result.stdout)


def log_of(example: Example, job: str, host: str) -> str:
    result = subprocess.run(
        example.command("logs", job, "--host", host, "-o", "json"),
        env=example.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return "\n".join(
        json.loads(line)["text"] for line in result.stdout.splitlines() if '"text"' in line
    )


def events(text: str, name: str) -> list[dict[str, object]]:
    parsed = (parse_event(line) for line in text.splitlines())
    return [fields for event, fields in filter(None, parsed) if event == name]

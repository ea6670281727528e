"""The bill of a job that ran: what the endpoint says was billed, times the price."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.client.endpoint import serve

JOB = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: train_group, instance_type: ml.g5.xlarge}
  - instance_group_name: other_group
    instance_type: ml.c5.xlarge
    instance_count: 2
    command: ["true"]
    lifetime: own
max_run: 3600
image_uri: 123456789012.dkr.ecr.us-east-1.amazonaws.com/image:1
role: arn:aws:iam::123456789012:role/LauncherLocalRole
"""


@pytest.mark.slow
def test_a_job_that_was_sent_and_followed_is_billed_by_group(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello', flush=True)\n")
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "prices.csv").write_text("instance_type,price_per_hour\nstorage,0.14\n")
    command = [sys.executable, "-m", "launcher", "run", str(tmp_path / "job.yaml")]
    with serve(tmp_path / "endpoint", isolation="process") as endpoint:
        finished = subprocess.run(
            [*command, "--yes", "--max-cost", "2", "-o", "json"],
            env={**os.environ, **endpoint.environment, "LAUNCHER_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        summary = json.loads(finished.stdout)
        described = endpoint.client("sagemaker").describe_training_job(
            TrainingJobName=summary["name"]
        )

    hours = described["BillableTimeInSeconds"] / 3600
    cost = summary["cost"]
    assert cost["by_group"] == {
        "train_group": pytest.approx(1.408 * hours),
        "other_group": pytest.approx(2 * 0.204 * hours),
    }
    volumes = 2 * 30 * 0.14 / (28 * 24)  # the g5.xlarge has disks of its own
    assert cost["volumes_per_hour"] == pytest.approx(volumes)
    assert cost["dollars"] == pytest.approx((1.816 + volumes) * hours)
    assert cost["max_dollars"] == pytest.approx(1.816 + volumes)
    assert cost["spot_saving"] is None

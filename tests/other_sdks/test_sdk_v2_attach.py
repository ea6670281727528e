"""SDK v2 attaches to a job of an endpoint, and reads its metrics from CloudWatch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from customer import BUCKET, ROLE, Customer
from sdk_clients import run_client

from launcher.client.endpoint import serve

SCRIPT = """\
import os
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as weights:
    weights.write("A")
for step in range(4):
    print(f"loss={4 - step}.5;", flush=True)
"""


@pytest.mark.library("sagemaker-v2")
def test_attach_and_analytics_of_sdk_v2(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "measure.py").write_text(SCRIPT)
    with serve(tmp_path / "root") as endpoint:
        customer = Customer(endpoint, tmp_path / "root")
        customer.s3.create_bucket(Bucket=BUCKET)
        program = Path(__file__).with_name("analytics_v2.py")
        printed = run_client(customer, tmp_path, sys.executable, program, ROLE, tmp_path / "source")
    (line,) = [each for each in printed.splitlines() if each.startswith("FOUND ")] or [printed]
    found = json.loads(line.removeprefix("FOUND "))
    metrics = [{"timestamp": 0.0, "metric_name": "loss", "value": 3.0}]
    assert found["hyperparameters"].pop("epochs") == "3"
    assert found["hyperparameters"].pop("name") == '"abc"'
    del found["hyperparameters"]
    assert found == {
        "role": ROLE,
        "instance_type": "ml.c5.xlarge",
        "instance_count": 1,
        "output_kms_key": "",
        "tags": [{"Key": "team", "Value": "vision"}],
        "model_data": f"s3://{BUCKET}/measured-by-sdk-v2/output/model.tar.gz",
        "status": "Completed",
        "metrics": metrics,
        "named": metrics,
        "tuning_jobs": [],
    }
    assert "loss=1.5;" in printed

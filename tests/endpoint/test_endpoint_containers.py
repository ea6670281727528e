"""Images at the endpoint: those of one's own and those of AWS's toolkit run in containers."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from containers import ENGINE, made_image
from customer import BUCKET, Customer, channel, request
from needs import skip_without_isolation

from launcher.client.endpoint import serve
from launcher.errors import PlatformError

pytestmark = pytest.mark.library("containers")

#: Knows nothing of Launcher.
TRAIN = """\
#!/usr/bin/python3
import json, os, pathlib, sys
ml = pathlib.Path("/opt/ml")
epochs = json.loads((ml / "input/config/hyperparameters.json").read_text())["epochs"]
data = (ml / "input/data/training/rows.csv").read_text()
print("train", sys.argv[1:], epochs, data, sorted(k for k in os.environ if k.startswith("AWS_")))
(ml / "model/weights").write_text(data * int(epochs))
"""
SCRIPT = """\
import os, sys
from helper import WORD
print(WORD, sys.argv[1:], os.environ["SM_USER_ENTRY_POINT"])
open(os.environ["SM_MODEL_DIR"] + "/weights", "w").write("w")
"""


@pytest.fixture(scope="module")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    skip_without_isolation("container")
    root = tmp_path_factory.mktemp("endpoint")
    with serve(root, isolation="container", engine=ENGINE) as endpoint:
        customer = Customer(endpoint, root)
        customer.s3.create_bucket(Bucket=BUCKET)
        yield customer


def model_of(customer: Customer, description: dict[str, Any]) -> dict[str, bytes]:
    """The files of a job's model.tar.gz, by name."""
    bucket, _, key = (
        description["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    )
    packed = customer.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        files = {each.name: tar.extractfile(each) for each in tar if each.isfile()}
        return {name: stream.read() for name, stream in files.items() if stream}


def own_start(image: str) -> dict[str, Any]:
    return {"AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"}}


@pytest.mark.parametrize(
    ("path", "changes", "arguments"),
    [
        ("/usr/local/bin/train", [], []),
        ("/opt/program", ['ENTRYPOINT ["/opt/program"]'], ["train"]),
    ],
    ids=["train-on-the-path", "an-entrypoint"],
)
def test_an_image_of_ones_own_trains(
    customer: Customer, path: str, changes: list[str], arguments: list[str]
) -> None:
    name = f"own-{path.rpartition('/')[2]}"
    customer.s3.put_object(Bucket=BUCKET, Key=f"{name}/rows.csv", Body=b"1,2;")
    with made_image({path: TRAIN}, changes=changes) as image:
        customer.sagemaker.create_training_job(
            **request(name, **own_start(image), HyperParameters={"epochs": "2"})
            | {"InputDataConfig": [channel("training", f"s3://{BUCKET}/{name}/")]}
        )
        description = customer.end_of(name)
    assert description["TrainingJobStatus"] == "Completed", (description, customer.lines(name))
    assert f"train {arguments} 2 1,2; ['AWS_REGION']" in customer.lines(name)
    assert model_of(customer, description) == {"weights": b"1,2;1,2;"}
    first = description["SecondaryStatusTransitions"][0]["StatusMessage"]
    assert "containers of this machine" in first
    assert "not pulled" not in first


def test_the_images_own_toolkit_runs_a_script(customer: Customer) -> None:
    toolkit = pytest.importorskip("sagemaker_training")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file, text in {"train.py": SCRIPT, "helper.py": "WORD = 'hello'"}.items():
            entry = tarfile.TarInfo(file)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    customer.s3.put_object(Bucket=BUCKET, Key="source/sourcedir.tar.gz", Body=packed.getvalue())
    values = {
        "epochs": 3,
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": f"s3://{BUCKET}/source/sourcedir.tar.gz",
        "sagemaker_region": "us-east-1",
    }
    start = "#!/bin/sh\nexec python3 -m sagemaker_training.cli.train\n"
    packages = Path(toolkit.__file__).parents[1]
    changes = ["ENV PYTHONPATH=/toolkit"]
    with made_image(
        {"/usr/local/bin/train": start}, folders={packages: "/toolkit"}, changes=changes
    ) as image:
        asked = request("toolkit", **own_start(image))
        del asked["InputDataConfig"]
        asked["HyperParameters"] = {name: json.dumps(value) for name, value in values.items()}
        customer.sagemaker.create_training_job(**asked)
        description = customer.end_of("toolkit")
    lines = customer.lines("toolkit")
    assert description["TrainingJobStatus"] == "Completed", (description, lines)
    assert "hello ['--epochs', '3'] train.py" in lines
    assert model_of(customer, description) == {"weights": b"w"}
    first = description["SecondaryStatusTransitions"][0]["StatusMessage"]
    assert "sagemaker_submit_directory is /opt/ml/input/sourcedir.tar.gz in the containers" in first


def test_credentials_of_the_endpoint_reach_no_container(tmp_path: Path) -> None:
    asked = {"isolation": "container", "engine": ENGINE, "credentials": True}
    with (
        pytest.raises(PlatformError, match="a container does not reach the loopback"),
        serve(tmp_path, **asked),
    ):
        pass

"""The model that the digits job saves can be loaded, and is as good as the job says."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

JOB = Path(__file__).parents[2] / "examples" / "digits" / "job.yaml"


@pytest.fixture(scope="module")
def summary(train, images, tmp_path_factory):
    """What `launcher run -o json` answers after two epochs of the job on this machine."""
    home = tmp_path_factory.mktemp("launcher-home")
    changes = (f"inputs.digits.s3_data={images.as_uri()}", "hyperparameters.epochs=2")
    run = subprocess.run(
        [sys.executable, "-m", "launcher.cli", "run", str(JOB), "--local", "-o", "json"]
        + [word for change in changes for word in ("--set", change)],
        env={**os.environ, "LAUNCHER_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_saved_model_is_as_accurate_as_the_job_says(summary, train, pipeline, channel):
    torch = pytest.importorskip("torch")
    model = train.Net().eval()
    with tarfile.open(summary["model_artifacts"].removeprefix("file://")) as archive:
        model.load_state_dict(torch.load(archive.extractfile("model.pt"), weights_only=True))

    dataset = pipeline.test_set()
    samples = [dataset[index] for index in range(len(dataset))]
    images = torch.stack([torch.from_numpy(pixels) for pixels, _ in samples])
    labels = torch.tensor([label for _, label in samples])
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == labels).sum().item()

    one_sample = 1 / len(dataset)  # batches of other sizes round differently
    assert right / len(dataset) == pytest.approx(
        summary["metrics"]["test_accuracy"], abs=one_sample
    )


def test_the_ranks_received_every_batch_that_the_data_hosts_prepared(summary):
    data = summary["data"]
    assert sum(data["batches_by_host"].values()) == sum(data["batches_received"].values())

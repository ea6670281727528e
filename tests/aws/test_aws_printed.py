"""What `launcher run --dry-run` prints is what `launcher run` sends, for every golden request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.client.cli import main
from launcher.client.request import redacted

GOLDEN = Path(__file__).parents[1] / "request" / "golden"
SOURCES = {
    "train.py": "",
    "src/train.py": "",
    "server.py": "",
    "bin/track": "",
    "pipeline.py": "def train_set(): ...\ndef test_set(): ...\n",
    "task.py": "def make(): ...\n",
}
PARTITION_FILE = Path("spec/bad/partition.json")  # as a golden job names it, two folders up


@pytest.fixture
def run(front, past, credentials, tmp_path):
    """The verb `run` for a golden job, whose bucket and files are there."""
    credentials.setenv("AWS_DEFAULT_REGION", "us-east-1")  # that of the golden images
    folder = tmp_path / "request" / "golden"
    for path, text in SOURCES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (tmp_path / PARTITION_FILE).parent.mkdir(parents=True)
    shutil.copy(GOLDEN.parents[1] / PARTITION_FILE, tmp_path / PARTITION_FILE)
    here = {"LocationConstraint": "eu-west-1"}
    past("s3").create_bucket(Bucket="my-bucket", CreateBucketConfiguration=here)

    def run(name: str, *options: str) -> str:
        job = shutil.copy(GOLDEN / f"{name}.yaml", folder)
        given = ("--name", "job-1", "--set", "output_path=s3://my-bucket/output")
        result = CliRunner().invoke(main, ["run", str(job), *given, *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


FAST = ("two_groups", "network_isolation")


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in sorted(path.stem for path in GOLDEN.glob("*.yaml"))
    ],
)
def test_what_is_printed_is_sent(run, front, name: str) -> None:
    printed = json.loads(run(name, "--dry-run"))
    assert not front.of("CreateTrainingJob")

    run(name, "--yes", "--detach")
    (call,) = front.of("CreateTrainingJob")
    assert redacted(json.loads(call.body)) == printed

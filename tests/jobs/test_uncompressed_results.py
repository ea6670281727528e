"""Results that are stored uncompressed are not downloaded: the error says how to copy them."""

from pathlib import Path

import pytest

from launcher import MemorySession, PlatformError
from launcher.client.jobs import download_artifacts


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("s3://bucket/out", "with `aws s3 cp --recursive` from s3://bucket/out/job-1/output/ to "),
        ("file:///home/out/", "as files from file:///home/out/job-1/output/ to "),
    ],
)
def test_how_uncompressed_results_are_copied(tmp_path: Path, place: str, words: str) -> None:
    output = {"S3OutputPath": place, "CompressionType": "NONE"}
    description = {"TrainingJobName": "job-1", "OutputDataConfig": output}
    with pytest.raises(PlatformError, match=words):
        download_artifacts(MemorySession(), description, tmp_path)  # type: ignore[arg-type]

"""The file of a partition: what is sent of it, and what the job document says of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from cut_model import PARTITION, consistent, partition
from source_folder import Folder
from stored_bytes import stored_bytes

from launcher.client.request import JobLocation, Submission, prepare
from launcher.client.sessions import LOCAL_PLATFORM, SAGEMAKER, Platform
from launcher.client.spec import JobSpec, ModelParallel
from launcher.errors import SpecError
from launcher.shared import JobDocument, ModuleCost, ParallelPart, PartitionFile

CODE = "s3://my-bucket/code/job-1/code/"
TASK = "def make(): ...\n"


@pytest.fixture
def source(tmp_path: Path) -> Folder:
    """The code, and beside it the file."""
    folder = Folder(tmp_path / "source")
    folder.write_all({"task.py": TASK, "partition.json": "the user's own"})
    PARTITION.write(tmp_path / "cuts.json")
    return folder


def job(source: Folder, **fields: Any) -> JobSpec:
    chosen = {"partition_file": str(source.root.parent / "cuts.json"), **fields}
    return JobSpec(
        task="task:make",
        source_dir=str(source.root),
        instance_type="ml.g5.12xlarge",
        instance_count=1,
        distribution=ModelParallel(**chosen),
    )


def sent(spec: JobSpec, **fields: Any) -> Submission:
    placement = JobLocation(
        job_name="job-1",
        role_arn="arn:aws:iam::111122223333:role/Training",
        image_uri="111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1",
        code_uri=CODE,
        output_uri="s3://my-bucket/output",
        token="0",
    )
    return prepare(spec, dataclasses.replace(placement, **fields))


def told(submission: Submission) -> ParallelPart:
    text = stored_bytes(submission)[CODE + "launcher.json"].decode()
    return JobDocument.from_json(text).trainer.parallel


@pytest.mark.parametrize("platform", [SAGEMAKER, LOCAL_PLATFORM], ids=lambda each: each.name)
def test_the_file_lies_beside_the_job_document(source: Folder, platform: Platform) -> None:
    submission = sent(job(source), judge=platform.judge)
    text = stored_bytes(submission)[CODE + "partition.json"].decode()
    assert text == (source.root.parent / "cuts.json").read_text()
    assert PartitionFile.from_json(text) == PARTITION
    assert [uri.removeprefix(CODE) for uri in submission.objects] == [
        "launch.py",
        "bundle.tar.gz",
        "launcher.json",
        "partition.json",
    ]


def test_the_document_has_the_files_contents_and_not_its_path(source: Folder) -> None:
    submission = sent(job(source, accumulation=3))
    assert told(submission) == ParallelPart(
        partitions=2,
        microbatches=2,
        starts=("2",),
        accumulation=3,
        partition_file="partition.json",
    )
    place = str(source.root.parent).encode()
    assert place not in json.dumps(dict(submission.request)).encode()
    assert not any(place in content for content in stored_bytes(submission).values())


@pytest.mark.parametrize(
    "of_file",
    [
        {"partitions": 4, "microbatches": 6, "starts": ("1", "2", "3")},
        {"schedule": "zero_bubble", "virtual_stages": 2, "starts": ("1", "2", "3")},
        {"precision": "bf16", "recomputed": ("0", "1")},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_the_file_sets_what_the_job_leaves_open(source: Folder, of_file: dict[str, Any]) -> None:
    more = ModuleCost(name="3", forward=0.0, backward=0.0, crossing=4)
    made = consistent(partition(**of_file, modules=(*PARTITION.modules, more)))
    made.write(source.root.parent / "cuts.json")
    part = told(sent(job(source)))
    assert {name: getattr(part, name) for name in of_file} == of_file
    said = {name: value for name, value in of_file.items() if name != "starts"}
    assert told(sent(job(source, **said))) == part  # the same again is no contradiction


def test_the_same_job_gives_the_same_bytes_and_its_code_is_not_its_cuts(source: Folder) -> None:
    first = sent(job(source))
    assert sent(job(source)).objects == first.objects
    partition(starts=("1",)).write(source.root.parent / "cuts.json")
    second = sent(job(source))
    changed = [uri for uri in first.objects if first.objects[uri] != second.objects[uri]]
    assert changed == [CODE + "launcher.json", CODE + "partition.json"]


def test_a_job_without_a_file_sends_none(source: Folder) -> None:
    submission = sent(job(source, partition_file=None, auto_partition=True, memory_cap=2**30))
    assert CODE + "partition.json" not in submission.objects
    assert told(submission) == ParallelPart(
        partitions=2, microbatches=4, auto_partition=True, memory_cap=2**30
    )


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ({"version": 99}, "it is of version 99, and this Launcher reads version 1: make it again"),
        ({"partitions": "2"}, "this is not a file of `launcher plan cut`: partitions is '2'"),
        ({"colour": "red"}, "this is not a file of `launcher plan cut`: .*'colour'"),
        ({"starts": ["1", "2"]}, "there are 2 starts, and 2 stages need 1; undo"),
        ({"schedule": "1f1b"}, "schedule is '1f1b', and not one of simple, "),
        ({"microbatches": 0}, "microbatches is 0, and at least 1 is needed"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_file_that_was_changed_is_refused(
    source: Folder, damage: dict[str, Any], what: str
) -> None:
    path = source.root.parent / "cuts.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(SpecError, match=what) as raised:
        sent(job(source))
    assert [p.where for p in raised.value.problems] == [
        "distribution.model_parallel.partition_file"
    ]

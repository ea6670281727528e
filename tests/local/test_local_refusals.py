"""Requests that this machine cannot run are refused before anything is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel

from launcher.client.sessions import ignored_field_notes
from launcher.errors import PlatformError

Request = dict[str, Any]


def set_in(*path: Any, to: Any) -> Callable[[Request], None]:
    """Change one field of a request."""

    def change(request: Request) -> None:
        part: Any = request
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return change


def source(**fields: Any) -> Callable[[Request], None]:
    """Change fields of the code channel's source."""
    return lambda request: request["InputDataConfig"][0]["DataSource"]["S3DataSource"].update(
        fields
    )


def also(extra: Request) -> Callable[[Request], None]:
    return lambda request: request["InputDataConfig"].append(extra)


def test_a_job_folder_that_cannot_be_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "process")
    jobs = tmp_path / "home" / "jobs"
    jobs.parent.mkdir()
    jobs.touch()
    with pytest.raises(PlatformError, match=f"cannot write to {jobs}: File exists"):
        bench.start("pass")
    with pytest.raises(PlatformError, match=f"cannot write to {jobs}/code: .*: free space there"):
        bench.session.upload(b"", f"file://{jobs}/code")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(set_in("TrainingJobName", to="a_b"), "'a_b' is not a legal", id="name"),
        pytest.param(set_in("TrainingJobName", to="../up"), "'../up' is not a legal", id="path"),
        pytest.param(set_in("TrainingJobName", to="a" * 64), "not a legal job name", id="long"),
        pytest.param(
            set_in("OutputDataConfig", "S3OutputPath", to="s3://bucket"),
            "s3://bucket is in S3, and no AWS credentials are found",
            id="output in the cloud",
        ),
        pytest.param(
            lambda request: request["AlgorithmSpecification"].pop("ContainerEntrypoint"),
            "no ContainerEntrypoint",
            id="no entry point",
        ),
        pytest.param(
            also({"ChannelName": "x"}), "there is no S3DataSource", id="channel without source"
        ),
        pytest.param(also(channel("x", "s3://b/x")), "no AWS credentials", id="s3 channel"),
        pytest.param(
            also(channel("x", "file://x/y")), "is not on this machine", id="relative channel"
        ),
        pytest.param(
            also(channel("x", "file:///no/such")), "no file is found at file:///no/such", id="none"
        ),
        pytest.param(
            also({"ChannelName": "x", "DataSource": {"FileSystemDataSource": {}}}),
            "no S3DataSource",
            id="file system",
        ),
        pytest.param(
            also(channel("sm_drivers", "file:///etc/hosts")),
            "below /opt/ml only, which hosts have with isolation 'sandbox'",
            id="programs of SDK v3",
        ),
        pytest.param(
            source(S3DataType="ManifestFile"),
            "'ManifestFile' needs an s3:// URI.*\n.*\n  fix: give the manifest's s3:// URI",
            id="manifest",
        ),
        pytest.param(
            source(S3DataType="AugmentedManifestFile"),
            "S3DataType 'AugmentedManifestFile' is not known to local jobs",
            id="augmented manifest",
        ),
        pytest.param(
            set_in("AlgorithmSpecification", "TrainingInputMode", to="Pipe"),
            "InputMode 'Pipe'",
            id="pipe",
        ),
        pytest.param(
            set_in("InputDataConfig", 0, "CompressionType", to="Gzip"),
            "CompressionType 'Gzip'",
            id="compressed",
        ),
    ],
)
def test_refused(plain_bench: Bench, change: Callable[[Request], None], message: str) -> None:
    request = plain_bench.request("pass")
    change(request)

    with pytest.raises(PlatformError, match=message):
        plain_bench.session.create_training_job(**request)
    assert plain_bench.session.list_training_jobs() == {"TrainingJobSummaries": []}


def test_an_empty_folder_is_no_input(plain_bench: Bench) -> None:
    (plain_bench.folder / "empty" / "deeper").mkdir(parents=True)
    with pytest.raises(PlatformError, match="no file is found"):
        plain_bench.start("pass", channels=[channel("x", f"file://{plain_bench.folder}/empty")])


def test_all_problems_come_at_once(plain_bench: Bench) -> None:
    request = plain_bench.request("pass", name="job", channels=[channel("x", "file:///no/such")])
    request |= {"TrainingJobName": "a_b", "ResourceConfig": {}}

    with pytest.raises(PlatformError) as caught:
        plain_bench.session.create_training_job(**request)
    assert str(caught.value).count("error:") == 4
    assert str(caught.value).count("fix:") == 4


GOLDEN = Path(__file__).parents[1] / "request" / "golden"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "watched",
            ["AlgorithmSpecification.EnableSageMakerMetricsTimeSeries", "ExperimentConfig"],
        ),
        ("watched", ["TensorBoardOutputConfig", "DebugHookConfig", "DebugRuleConfigurations"]),
        ("watched", ["ProfilerConfig", "ProfilerRuleConfigurations"]),
        ("watched", ["RemoteDebugConfig", "InfraCheckConfig"]),
        ("vpc_kms_tags", ["ResourceConfig.VolumeKmsKeyId", "OutputDataConfig.KmsKeyId"]),
        ("vpc_kms_tags", ["SessionChainingConfig"]),
        ("vpc_kms_tags", ["AlgorithmSpecification.TrainingImageConfig"]),
        ("warm_pool", ["ResourceConfig.KeepAlivePeriodInSeconds", "RetryStrategy"]),
        ("extra_request", ["ResourceConfig.TrainingPlanArn"]),
        ("extra_request", ["ResourceConfig.InstancePlacementConfig"]),
    ],
)
def test_all_that_has_no_effect_here_is_known(name: str, fields: list[str]) -> None:
    notes = ignored_field_notes(json.loads((GOLDEN / f"{name}.json").read_text()))
    assert {f"{field} has no effect on a local job" for field in fields} <= set(notes)


def test_a_plain_job_has_all_its_effects() -> None:
    assert ignored_field_notes(json.loads((GOLDEN / "two_groups.json").read_text())) == []


def test_storage(plain_bench: Bench, tmp_path: Path) -> None:
    session = plain_bench.session
    uri = f"{session.default_location()}/job/code/launch.py"
    session.upload(b"content", uri)
    session.upload(b"new content", uri)
    session.download(uri, tmp_path / "copy")

    assert (tmp_path / "copy").read_bytes() == b"new content"
    with pytest.raises(PlatformError, match="does not exist"):
        session.download(f"{uri}.not", tmp_path / "copy")
    with pytest.raises(PlatformError, match="s3://b/k"):
        session.upload(b"", "s3://b/k")


def test_identity(plain_bench: Bench) -> None:
    session = plain_bench.session
    assert session.region == "local"
    assert session.role_arn("Trainer") == f"arn:aws:iam::{session.account}:role/Trainer"
    assert session.role_arn("arn:aws:iam::111122223333:role/X").endswith("111122223333:role/X")

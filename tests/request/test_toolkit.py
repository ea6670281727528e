"""Script mode of AWS's toolkit, held against what SDK v2 was seen to send for each distribution."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from source_folder import Folder
from stored_bytes import stored_bytes

from launcher.client.estimator import as_groups
from launcher.client.request import JobLocation, build_request, prepare
from launcher.client.spec import (
    DataParallel,
    InstanceGroup,
    JobSpec,
    Toolkit,
    TrainingInput,
    as_distribution,
    examine,
)
from launcher.errors import SpecError
from launcher.shared import Role

ROWS = json.loads((Path(__file__).parent / "toolkit_rows.json").read_text())["rows"]
DATA = InstanceGroup("data_group", "ml.c5.9xlarge", 2)
DNN = InstanceGroup("dnn_group", "ml.p4d.24xlarge", 1)
MACHINES: dict[str, dict[str, Any]] = {
    "all": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "only": {"instance_groups": [DNN]},
    "one of two": {"instance_groups": [DATA, replace(DNN, role=Role.TRAIN)]},
}
PLACEMENT = JobLocation(
    job_name="job-1",
    role_arn="arn:aws:iam::111122223333:role/Training",
    image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
    code_uri="s3://bucket/job-1/source/",
    output_uri="s3://bucket",
    token="00112233445566778899aabbccddeeff",
    region="us-east-1",
)
SMDDP = {"smdistributed": {"dataparallel": {"enabled": True}}}
SMP = {"modelparallel": {"enabled": True}}


def spec_of(row: dict[str, Any]) -> JobSpec:
    return JobSpec(
        entry_point="train.py",
        distribution=Toolkit(strategies=row["distribution"]),
        hyperparameters={"epochs": 3},
        framework=row["framework"],
        enable_network_isolation=row["isolated"],
        **MACHINES[row["groups"]],
    )


def named(rows: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in rows]


def errors(spec: JobSpec) -> list[str]:
    return [finding.what for finding in examine(spec) if not finding.is_warning]


# As SDK v2 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", named([row for row in ROWS if "raises" not in row]))
def test_the_toolkit_gets_the_hyperparameters_of_sdk_v2(row: dict[str, Any]) -> None:
    spec = spec_of(row)
    assert errors(spec) == []
    request = build_request(spec, PLACEMENT)
    assert request["HyperParameters"] == row["hyperparameters"]
    assert request.get("InputDataConfig") == row["channels"]
    assert "ContainerEntrypoint" not in request["AlgorithmSpecification"]
    assert not request.get("Environment")


@pytest.mark.parametrize("row", named([row for row in ROWS if "raises" in row]))
def test_what_sdk_v2_refuses_is_refused(row: dict[str, Any]) -> None:
    (what,) = errors(spec_of(row))
    assert what.startswith("AWS's toolkit cannot start ")
    assert what.endswith(" on one instance group")


def test_a_job_of_pytorch_xla_sets_its_flag() -> None:
    row = {"distribution": {"pytorchxla": {"enabled": True}}, "groups": "all", "isolated": False}
    spec = spec_of({**row, "framework": "pytorch"})
    request = build_request(spec, PLACEMENT)
    assert request["HyperParameters"]["sagemaker_pytorch_xla_multi_worker_enabled"] == "true"


# The source ------------------------------------------------------------------------------------


def test_the_source_travels_flat_and_alone(source: Folder) -> None:
    source.write_all({"lib/model.py": "", "train.py": "print(1)\n"})
    spec = source.spec(
        distribution=Toolkit(strategies=SMDDP), instance_type="ml.p4d.24xlarge", instance_count=2
    )
    submission = prepare(spec, PLACEMENT)
    ((uri, content),) = stored_bytes(submission).items()
    assert uri == "s3://bucket/job-1/source/sourcedir.tar.gz"
    assert json.loads(submission.request["HyperParameters"]["sagemaker_submit_directory"]) == uri
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == ["lib/model.py", "train.py"]


ARCHIVE = "s3://bucket/mine/sourcedir.tar.gz"


@pytest.mark.parametrize("isolated", [False, True])
def test_a_source_in_s3_is_named_and_nothing_is_uploaded(isolated: bool) -> None:
    spec = JobSpec(
        entry_point="train.py",
        source_dir=ARCHIVE,
        distribution=Toolkit(strategies=SMDDP),
        enable_network_isolation=isolated,
        **MACHINES["all"],
    )
    submission = prepare(spec, PLACEMENT)
    directory = json.loads(submission.request["HyperParameters"]["sagemaker_submit_directory"])
    assert submission.objects == {}
    if not isolated:
        assert directory == ARCHIVE
        return
    (channel,) = submission.request["InputDataConfig"]
    assert directory == "/opt/ml/input/data/code/sourcedir.tar.gz"
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == ARCHIVE


def test_the_source_of_isolated_groups_is_routed_as_the_other_channels() -> None:
    spec = spec_of(
        {"distribution": SMDDP, "groups": "one of two", "framework": None, "isolated": True}
    )
    routed = TrainingInput("s3://b/raw", instance_groups=("data_group",))
    channels = build_request(spec.replace(inputs={"raw": routed}), PLACEMENT)["InputDataConfig"]
    groups = {
        c["ChannelName"]: c["DataSource"]["S3DataSource"]["InstanceGroupNames"] for c in channels
    }
    assert groups == {"raw": ["data_group"], "code": ["data_group", "dnn_group"]}


def test_without_a_region_nothing_is_sent() -> None:
    with pytest.raises(SpecError, match="needs the region"):
        build_request(spec_of(ROWS[0]), replace(PLACEMENT, region=""))


# Beside torchrun -------------------------------------------------------------------------------


@pytest.mark.parametrize("machines", MACHINES)
def test_the_data_parallel_library_starts_under_torchrun(machines: str) -> None:
    spec = spec_of(
        {
            "distribution": {**SMDDP, "torch_distributed": {"enabled": True}},
            "groups": machines,
            "framework": "pytorch",
            "isolated": False,
        }
    )
    assert errors(spec) == []
    sent = build_request(spec, PLACEMENT)["HyperParameters"]
    assert sent["sagemaker_torch_distributed_enabled"] == "true"
    assert sent["sagemaker_distributed_dataparallel_enabled"] == "true"


# SDK v2's dictionaries -------------------------------------------------------------------------


def test_the_group_of_sdk_v2s_dictionary_is_the_one_it_starts_on() -> None:
    given = {**SMDDP, "instance_groups": [replace(DNN)]}
    spec = JobSpec(
        entry_point="train.py",
        distribution=as_distribution(given),
        instance_groups=as_groups([DATA, DNN], given),
    )
    hyperparameters = build_request(spec, PLACEMENT)["HyperParameters"]
    assert hyperparameters["sagemaker_distribution_instance_groups"] == '["dnn_group"]'


def test_ddp_with_options_for_mpirun_is_the_library_that_sdk_v2_starts() -> None:
    options = {"enabled": True, "custom_mpi_options": "-verbose"}
    assert as_distribution({"pytorchddp": options}) == Toolkit(
        strategies={"smdistributed": {"dataparallel": options}}
    )
    assert as_distribution({"pytorchddp": {"enabled": True}}) == DataParallel()
    with pytest.raises(SpecError, match="pytorchddp and smdistributed"):
        as_distribution({"pytorchddp": options, **SMDDP})


def test_the_dictionary_survives_yaml() -> None:
    spec = spec_of(ROWS[6])
    assert JobSpec.from_yaml(spec.to_yaml()) == spec

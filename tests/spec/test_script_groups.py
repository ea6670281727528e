"""Jobs whose groups all run the script: the rules, the document, and what comes back of it."""

from __future__ import annotations

from typing import Any

import pytest

from launcher import DataParallel, Mpi, PyTorch
from launcher.client.request import JobLocation, build_document, build_request
from launcher.client.spec import InstanceGroup, JobSpec, examine
from launcher.shared import JobDocument, Launch, Lifetime, Role

DATA, DNN = InstanceGroup("data_group", "ml.c5.2xlarge"), InstanceGroup("dnn_group", "ml.g5.xlarge")


def job(*groups: InstanceGroup, **fields: Any) -> JobSpec:
    groups = groups or (DATA, DNN)
    return JobSpec(entry_point="train.py", source_dir=".", instance_groups=groups, **fields)


def errors(spec: JobSpec) -> list[str]:
    return [f"{p.what} | {p.fix}" for p in examine(spec) if not p.is_warning]


@pytest.mark.parametrize(
    "distribution",
    [
        None,
        DataParallel(instance_groups=("dnn_group",)),
        Mpi(instance_groups=["data_group"], processes_per_host=2),
    ],
    ids=["none", "torchrun", "mpi"],
)
def test_two_groups_without_roles_run_the_script(distribution: Any) -> None:
    spec = job(distribution=distribution)
    assert errors(spec) == []
    assert JobSpec.from_yaml(spec.to_yaml()) == spec
    document = build_document(spec)
    assert set(document.roles.values()) == {Role.SCRIPT}
    leading = "data_group" if distribution is None else distribution.instance_groups[0]
    assert document.trainer.group == leading
    assert document.scripts["data_group"].lifetime is Lifetime.OWN
    assert document.scripts["data_group"].dollars_per_hour == pytest.approx(0.408)
    assert '"version": 8' in document.to_json()
    assert JobDocument.from_json(document.to_json()) == document


def test_an_unscoped_distribution_is_refused_with_the_line_to_write() -> None:
    (error,) = errors(job(distribution=DataParallel()))
    assert "2 groups run the script: data_group, dnn_group" in error
    assert "instance_groups: [data_group] or instance_groups: [dnn_group]" in error


def test_the_leading_group_ends_with_no_other() -> None:
    helper = InstanceGroup("dnn_group", "ml.c5.2xlarge", lifetime=Lifetime.TRAIN)
    (error,) = errors(job(DATA, helper, distribution=Mpi(instance_groups=("dnn_group",))))
    assert 'lifetime "train" of group "dnn_group" refers to no other group' in error


def test_a_helper_group_leaves_the_lead_to_the_other() -> None:
    helper = InstanceGroup("data_group", "ml.c5.2xlarge", lifetime=Lifetime.TRAIN)
    assert build_document(job(helper, DNN)).trainer.group == "dnn_group"


def test_a_train_group_leads_beside_scripts() -> None:
    spec = job(
        DATA,
        InstanceGroup("more", "ml.c5.2xlarge"),
        InstanceGroup("t", "ml.g5.xlarge", role=Role.TRAIN),
        distribution=DataParallel(),
    )
    assert errors(spec) == []
    document = build_document(spec)
    assert [role.value for role in document.roles.values()] == ["script", "script", "train"]
    assert document.trainer.group is None


@pytest.mark.parametrize("key", ["torch_distributed", "mpi"])
def test_sdk_v2_dictionaries_limit_the_distribution(key: str) -> None:
    estimator = PyTorch(
        "train.py",
        source_dir=".",
        role="r",
        instance_groups=[DATA, DNN],
        distribution={key: {"enabled": True}, "instance_groups": [DNN]},
    )
    assert errors(estimator.spec) == []
    document = build_document(estimator.spec)
    assert document.trainer.group == "dnn_group"
    assert document.trainer.launch == (Launch.MPI if key == "mpi" else Launch.TORCHRUN)


@pytest.mark.parametrize("scope", [None, "dnn_group"])
def test_the_request_has_what_the_toolkit_reads(scope: str | None) -> None:
    """Its Environment() takes the program and the distribution's group from hyperparameters."""
    distribution = Mpi(instance_groups=(scope,)) if scope else None
    place = JobLocation(
        job_name="j",
        role_arn="r",
        image_uri="i",
        code_uri="s3://b/c/",
        output_uri="s3://b",
        token="t",
    )
    values = build_request(job(distribution=distribution), place)["HyperParameters"]
    named = {"sagemaker_distribution_instance_groups": '["dnn_group"]'} if scope else {}
    assert values == {"sagemaker_program": '"train.py"', "sagemaker_job_name": '"j"', **named}

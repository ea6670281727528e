"""A ModelTrainer of SDK v3: its request, and that of the Estimator that takes its place."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from customer import BUCKET, ROLE, Customer, isolated_customer

from launcher import DataParallel, Estimator
from launcher.errors import SpecError

pytestmark = [
    pytest.mark.library("sagemaker-v3"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # SDK v3 imports its old modules
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # and leaves folders to finalizers
]
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.2.0-cpu-py310"
#: What differs between the two: each has its own code, command and names; v3 sends empty parts.
OWN = {"TrainingJobName", "InputDataConfig", "HyperParameters", "Environment"}


@pytest.fixture(scope="module")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    with isolated_customer("process", tmp_path_factory.mktemp("endpoint")) as customer:
        yield customer


@pytest.fixture
def source(customer: Customer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of a least ModelTrainer, where SDK v3 asks the endpoint."""
    for name, value in customer.endpoint.environment.items():
        monkeypatch.setenv(name, value)
    from sagemaker.core.helper.session_helper import Session
    from sagemaker.core.training.configs import SourceCode

    (tmp_path / "train.py").write_text("print('trained')")
    return {
        "training_image": IMAGE,
        "role": ROLE,
        "source_code": SourceCode(source_dir=str(tmp_path), entry_script="train.py"),
        "sagemaker_session": Session(default_bucket=BUCKET),
    }


def settings() -> dict[str, dict[str, Any]]:
    """Arguments of ModelTrainers, each with parts that the others do not have."""
    import sagemaker.core.training.configs as c

    return {
        "least": {},
        "all": {
            "base_job_name": "by-v3",
            "compute": c.Compute(
                instance_type="ml.c5.xlarge",
                instance_count=2,
                volume_size_in_gb=40,
                volume_kms_key_id="alias/key",
                enable_managed_spot_training=True,
            ),
            "networking": c.Networking(
                subnets=["subnet-1"],
                security_group_ids=["sg-1"],
                enable_inter_container_traffic_encryption=True,
            ),
            "stopping_condition": c.StoppingCondition(
                max_runtime_in_seconds=600,
                max_wait_time_in_seconds=900,
                max_pending_time_in_seconds=7200,
            ),
            "output_data_config": c.OutputDataConfig(
                s3_output_path=f"s3://{BUCKET}/output", compression_type="NONE"
            ),
            "checkpoint_config": c.CheckpointConfig(s3_uri=f"s3://{BUCKET}/kept/"),
            "tags": [c.Tag(key="team", value="vision")],
            "training_input_mode": "FastFile",
        },
        "groups": {
            "compute": c.Compute(
                instance_groups=[
                    c.InstanceGroup(
                        instance_group_name=name, instance_type="ml.c5.xlarge", instance_count=1
                    )
                    for name in ("data", "train")
                ]
            ),
        },
    }


@pytest.mark.parametrize("name", ["least", "all", "groups"])
def test_the_request_is_that_of_the_model_trainer(source: dict[str, Any], name: str) -> None:
    from sagemaker.core.training.configs import InputData
    from sagemaker.train import ModelTrainer

    data = [InputData(channel_name="digits", data_source=f"s3://{BUCKET}/digits/")]
    given = {"hyperparameters": {"epochs": 3}, "environment": {"MODE": "fast"}}
    trainer = ModelTrainer(**source, **given, **settings()[name], input_data_config=data)
    ours = Estimator.from_model_trainer(trainer).request()
    theirs = trainer._create_training_job_args(input_data_config=data, boto3=True)
    del trainer
    gc.collect()

    assert {key: part for key, part in plain(ours).items() if key not in OWN} == {
        key: part for key, part in plain(theirs).items() if key not in OWN
    }
    assert ours["HyperParameters"]["epochs"] == theirs["HyperParameters"]["epochs"]
    assert ours["Environment"]["MODE"] == theirs["Environment"]["MODE"]
    assert channel(ours) == channel(theirs)


def plain(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request without what each SDK adds for itself, and without AWS's defaults."""
    algorithm = dict(request["AlgorithmSpecification"])
    for name in ("ContainerEntrypoint", "ContainerArguments", "MetricDefinitions"):
        algorithm.pop(name, None)
    output = dict(request["OutputDataConfig"])
    if output.get("CompressionType") == "GZIP":
        del output["CompressionType"]
    made = {**request, "AlgorithmSpecification": algorithm, "OutputDataConfig": output}
    return {name: part for name, part in made.items() if part not in (None, False, {}, [])}


def channel(request: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any]
    (found,) = [each for each in request["InputDataConfig"] if each["ChannelName"] == "digits"]
    return {name: part for name, part in found.items() if part is not None}


def test_what_has_no_place_here_is_refused_at_once(source: dict[str, Any]) -> None:
    from sagemaker.core.training.configs import SourceCode
    from sagemaker.train import ModelTrainer
    from sagemaker.train.distributed import SMP, Torchrun

    folder = source["source_code"].source_dir
    source["source_code"] = SourceCode(
        source_dir=folder, entry_script="train.py", ignore_patterns=["*.csv"]
    )
    runner = Torchrun(process_count_per_node=1, smp=SMP(tensor_parallel_degree=2))
    trainer = ModelTrainer(**source, distributed=runner)
    with pytest.raises(SpecError) as refused:
        Estimator.from_model_trainer(trainer)
    assert [each.where for each in refused.value.problems] == [
        "ModelTrainer.source_code.ignore_patterns",
        "ModelTrainer.distributed.smp",
    ]
    with pytest.raises(SpecError, match="is not a ModelTrainer"):
        Estimator.from_model_trainer("train.py")


def test_it_runs_on_this_machine(source: dict[str, Any], tmp_path: Path) -> None:
    from sagemaker.train import ModelTrainer
    from sagemaker.train.distributed import Torchrun

    from launcher import LocalSession

    trainer = ModelTrainer(**source, distributed=Torchrun(process_count_per_node=2))
    session = LocalSession(tmp_path / "home", isolation="process")
    estimator = Estimator.from_model_trainer(trainer, sagemaker_session=session)
    assert estimator.distribution == DataParallel(processes_per_host=2)
    job = estimator.fit(logs=False)
    assert job.description()["TrainingJobStatus"] == "Completed"

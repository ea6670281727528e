"""190 configurations as users of SageMaker's SDK v2 write them, drawn by a seed: their requests."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import launcher

COUNT, SEED = 190, 20261129
_S3 = "s3://my-bucket"
_TRAINING = "arn:aws:iam::111122223333:role/Training"
_OWN_IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1"
_CPUS = ("ml.m5.xlarge", "ml.c5.2xlarge", "ml.c5.9xlarge")
_GPUS = ("ml.g4dn.xlarge", "ml.g5.12xlarge", "ml.p3.16xlarge", "ml.p4d.24xlarge")
_ON = {"enabled": True}
_DISTRIBUTIONS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"torch_distributed": _ON},
    {"pytorchddp": _ON},
    {"mpi": {**_ON, "processes_per_host": 4, "custom_mpi_options": "-x NCCL_DEBUG=INFO"}},
    {"smdistributed": {"dataparallel": _ON}},
    {"smdistributed": {"modelparallel": {**_ON, "parameters": {"partitions": 2}}}, "mpi": _ON},
    {"parameter_server": _ON},
    {"multi_worker_mirrored_strategy": _ON},
)
_CLASSES = ("Estimator", "PyTorch", "TensorFlow", "HuggingFace")
#: Classes, and versions of AWS's images, which are looked up in the sagemaker package.
_FRAMEWORKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("PyTorch", {"framework_version": "2.2", "py_version": "py310"}),
    ("PyTorch", {"framework_version": "1.13.1", "py_version": "py39"}),
    ("TensorFlow", {"framework_version": "2.12", "py_version": "py310"}),
    ("TensorFlow", {"framework_version": "2.16.2", "py_version": "py310"}),
    (
        "HuggingFace",
        {
            "transformers_version": "4.36.0",
            "pytorch_version": "2.1.0",
            "py_version": "py310",
        },
    ),
    *((name, {"image_uri": _OWN_IMAGE}) for name in _CLASSES * 4),
)
_VPC = {"subnets": ["subnet-1", "subnet-2"], "security_group_ids": ["sg-1"]}
_SPOT = {"use_spot_instances": True, "max_run": 3600, "max_wait": 7200}
#: Each is in one configuration of four.
_HABITS: tuple[dict[str, Any], ...] = (
    {"hyperparameters": {"epochs": 3, "lr": 1e-3, "name": "a b", "amp": True, "layers": [1, 2]}},
    {"hyperparameters": {"batch-size": "64", "empty": "", "nothing": None}},
    {"volume_size": 100},
    {"max_run": 7200},
    {"base_job_name": "my_Job"},
    {"tags": [{"Key": "team", "Value": "vision"}, {"Key": "cost", "Value": "1"}]},
    {"metric_definitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]},
    {**_SPOT, "checkpoint_s3_uri": f"{_S3}/checkpoints/"},
    {"checkpoint_s3_uri": f"{_S3}/kept", "checkpoint_local_path": "/opt/ml/kept"},
    _VPC,
    {"environment": {"NCCL_DEBUG": "INFO", "LEVEL": "3"}},
    {"keep_alive_period_in_seconds": 1800},
    {"enable_network_isolation": True},
    {"encrypt_inter_container_traffic": True},
    {"disable_profiler": True, "debugger_hook_config": False},
    {"debugger_hook_config": True},
    {"input_mode": "FastFile"},
    {"code_location": f"{_S3}/code"},
    {"output_kms_key": "alias/mine"},
    {"model_uri": f"{_S3}/model.tar.gz"},
    {"disable_output_compression": True},
    {"enable_sagemaker_metrics": True},
    {"max_retry_attempts": 3},
    {"container_log_level": 10},
    {"dependencies": ["common"]},
)


def cases() -> Mapping[str, Callable[[Path], Any]]:
    return {f"configuration {number:03}": partial(_request, number) for number in range(COUNT)}


def _request(number: int, folder: Path) -> Any:
    drawn = random.Random(f"{SEED}-{number}")
    kind, versions = drawn.choice(_FRAMEWORKS)
    arguments: dict[str, Any] = {"role": _TRAINING, "output_path": f"{_S3}/output", **versions}
    arguments |= {"entry_point": "train.py", "source_dir": str(_source(folder))}
    for habit in _HABITS:
        if drawn.random() < 0.25:
            arguments |= habit
    arguments |= _machines(drawn)
    inputs = _inputs(drawn)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            estimator = getattr(launcher, kind)(**arguments)
            made: Any = estimator.request(job_name=f"job-{number}", inputs=inputs)
        except (launcher.SpecError, launcher.RequestRefused) as error:
            made = {"refused": [[each.where, each.what, each.fix] for each in error.problems]}
    warned = [str(each.message) for each in told]
    return {"class": kind, "made": _without_token(made), "warnings": warned}


def _source(folder: Path) -> Path:
    """Write what travels; scripts run where it is, so its path is in no request."""
    for name in ("code/train.py", "code/pipeline.py", "common/shared.py"):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("def train_set():\n    return []\n")
    os.chdir(folder)
    return folder / "code"


def _machines(drawn: random.Random) -> dict[str, Any]:
    distribution = drawn.choice(_DISTRIBUTIONS)
    count = drawn.choice([1, 2, 4])
    if drawn.random() < 0.7:
        kind = drawn.choice(_GPUS if distribution else _CPUS + _GPUS)
        made: dict[str, Any] = {"instance_type": kind, "instance_count": count}
        return {**made, **({"distribution": distribution} if distribution else {})}
    data = launcher.InstanceGroup("data_group", drawn.choice(_CPUS), 1)
    train = launcher.InstanceGroup("train_group", drawn.choice(_GPUS), count)
    groups: dict[str, Any] = {"instance_groups": [data, train]}
    if distribution:
        groups["distribution"] = {**distribution, "instance_groups": [train]}
    return groups


def _inputs(drawn: random.Random) -> Any:
    train, test = f"{_S3}/train", f"{_S3}/test/"
    channel = launcher.TrainingInput
    return drawn.choice(
        [
            None,
            train,
            {"train": train, "test": test},
            channel(train, content_type="text/csv"),
            {"train": channel(train, distribution="ShardedByS3Key"), "validation": test},
            {"train": channel(train, input_mode="FastFile"), "test": channel(test)},
            {"train": channel(train, s3_data_type="ManifestFile", compression="Gzip")},
        ]
    )


def _without_token(request: Any) -> Any:
    """Replace what is drawn for each request: the token that its hosts share."""
    variables = request.get("Environment", {})
    hidden = {name: "{token}" for name in variables if name.endswith("_TOKEN")}
    return {**request, "Environment": {**variables, **hidden}} if hidden else request

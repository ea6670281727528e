"""Jobs as SDK v2 writes them: one table that both packages are given, by their own names.

A configuration is the name of an estimator, its arguments and the inputs of its fit(). `sdk` is the
package whose classes are used, so that between the two only the imports differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ROLE = "arn:aws:iam::111122223333:role/Training"
ECR = "dkr.ecr.us-east-1.amazonaws.com"
OWN_IMAGE = f"111122223333.{ECR}/own:1"
XGBOOST = f"683313688378.{ECR}/sagemaker-xgboost:1.7-1"
TORCH_IMAGE = f"763104351884.{ECR}/pytorch-training:2.2.0-gpu-py310"
KEY = "arn:aws:kms:us-east-1:111122223333:key/mine"
GPU, BIG = "ml.g5.12xlarge", "ml.p4d.24xlarge"
VPC = {"subnets": ["subnet-1", "subnet-2"], "security_group_ids": ["sg-1"]}
REGISTRY = {"training_repository_access_mode": "Vpc", **VPC}
LOGIN = "arn:aws:lambda:us-east-1:111122223333:function:login"
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/mine"
S3 = "s3://data-bucket"

Sdk = Any
Arguments = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A job: the estimator's name, its arguments, and the inputs of fit(), made from an SDK."""

    name: str
    estimator: str
    arguments: Callable[[Sdk], Arguments]
    inputs: Callable[[Sdk], Any] = field(default=lambda sdk: f"{S3}/train")
    session: Arguments = field(default_factory=dict)


def configurations() -> Iterator[Configuration]:
    """Yield every configuration; their names are unique."""
    yield from _distributions()
    yield from _tensorflow()
    yield from _inputs()
    yield from _options()
    yield from _images()
    yield from _programs()
    yield from _sessions()


def enabled(**more: Any) -> dict[str, Any]:
    """Return an enabled strategy of a distribution."""
    return {"enabled": True, **more}


def _pytorch(name: str, arguments: Callable[[Sdk], Arguments], **more: Any) -> Configuration:
    return Configuration(name=name, estimator="PyTorch", arguments=arguments, **more)


def _machine(kind: str = GPU, count: int = 1) -> dict[str, Any]:
    return {"instance_type": kind, "instance_count": count}


def _plain(version: str = "2.2.0", python: str = "py310", *machine: Any) -> dict[str, Any]:
    """The version of a framework and Python, on one host."""
    return {"framework_version": version, "py_version": python, **_machine(*machine)}


# Distributions on machines ---------------------------------------------------------------------

SMP = {"modelparallel": enabled(parameters={"hybrid_shard_degree": 2})}
OLD_SMP = {"modelparallel": enabled(parameters={"partitions": 2, "microbatches": 4, "ddp": True})}
DDP = {"dataparallel": enabled()}
STRATEGIES: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "torchrun": {"torch_distributed": enabled()},
    "torchrun off": {"torch_distributed": {"enabled": False}},
    "ddp": {"pytorchddp": enabled()},
    "ddp options": {"pytorchddp": enabled(custom_mpi_options="-verbose -x NCCL_DEBUG=VERSION")},
    "smddp": {"smdistributed": DDP},
    "smddp options": {"smdistributed": {"dataparallel": enabled(custom_mpi_options="-verbose")}},
    "smddp torchrun": {"smdistributed": DDP, "torch_distributed": enabled()},
    "smp": {"smdistributed": OLD_SMP, "mpi": enabled(processes_per_host=8)},
    "smp torchrun": {"smdistributed": SMP, "torch_distributed": enabled()},
    "mpi": {"mpi": enabled()},
    "mpi options": {
        "mpi": enabled(processes_per_host=8, custom_mpi_options="-verbose --NCCL_DEBUG WARN")
    },
}


def _machines(sdk: Sdk, name: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the arguments for the machines, and the groups that a distribution names."""
    if name == "one":
        return _machine(BIG), []
    if name == "two":
        return _machine(BIG, 2), []
    train = sdk.InstanceGroup("train_group", BIG, 2)
    if name == "one group":
        return {"instance_groups": [train]}, []
    data = sdk.InstanceGroup("data_group", "ml.c5.9xlarge", 1)
    return {"instance_groups": [data, train]}, [train]


def _distributions() -> Iterator[Configuration]:
    for strategy in STRATEGIES:
        for machines in ("one", "two", "one group", "two groups"):
            yield _pytorch(f"pytorch: {strategy}, {machines}", _on(strategy, machines))
    for version in ("1.6.0", "1.6"):
        yield _of_old_image("PyTorch", version, "py36")


def _on(strategy: str, machines: str) -> Callable[[Sdk], Arguments]:
    def arguments(sdk: Sdk) -> Arguments:
        given, scope = _machines(sdk, machines)
        distribution = STRATEGIES[strategy]
        if distribution and scope:
            distribution = {**distribution, "instance_groups": scope}
        version = "1.13.1" if strategy == "smp" else "2.0.1"
        python = "py39" if strategy == "smp" else "py310"
        return {
            "framework_version": "2.2.0" if strategy == "smp torchrun" else version,
            "py_version": python,
            "distribution": distribution,
            **given,
        }

    return arguments


def _of_old_image(estimator: str, version: str, python: str) -> Configuration:
    return Configuration(
        name=f"{estimator.lower()}: smddp, {version}",
        estimator=estimator,
        arguments=lambda sdk: {
            **_plain(version, python, "ml.p3.16xlarge", 2),
            "distribution": {"smdistributed": DDP},
        },
    )


def _tensorflow() -> Iterator[Configuration]:
    strategies: dict[str, Any] = {
        "plain": None,
        "ps": {"parameter_server": enabled()},
        "mwms": {"multi_worker_mirrored_strategy": enabled()},
        "mpi": {"mpi": enabled(processes_per_host=8)},
        "smddp": {"smdistributed": DDP},
    }
    for name, distribution in strategies.items():
        image = ("2.11.0", "py39") if name == "smddp" else ("2.14.1", "py310")  # AWS's last of it
        for count in (1, 2):
            yield Configuration(
                name=f"tensorflow: {name}, {count}",
                estimator="TensorFlow",
                arguments=lambda sdk, distribution=distribution, count=count, image=image: {
                    **_plain(*image, BIG, count),
                    "distribution": distribution,
                },
            )
    for version in ("1.15.4", "1.15", "2.3.1", "2.3"):  # images of their own with smdistributed
        yield _of_old_image("TensorFlow", version, "py37")
    for name, model_dir in {"given": f"{S3}/model", "off": False}.items():
        yield Configuration(
            name=f"tensorflow: model_dir {name}",
            estimator="TensorFlow",
            arguments=lambda sdk, model_dir=model_dir: {
                **_plain("2.14.1"),
                "model_dir": model_dir,
            },
        )


# Inputs ----------------------------------------------------------------------------------------


def _inputs() -> Iterator[Configuration]:
    kinds: dict[str, dict[str, Any]] = {
        "sharded": {"distribution": "ShardedByS3Key"},
        "gzip": {"compression": "Gzip"},
        "content type": {"content_type": "text/csv"},
        "recordio": {"record_wrapping": "RecordIO", "input_mode": "Pipe"},
        "manifest": {"s3_data_type": "ManifestFile"},
        "fast file": {"input_mode": "FastFile"},
        "augmented": {
            "s3_data_type": "AugmentedManifestFile",
            "attribute_names": ["source-ref", "label"],
            "record_wrapping": "RecordIO",
            "input_mode": "Pipe",
        },
        "target": {"target_attribute_name": "label", "content_type": "text/csv"},
    }
    yield _with_inputs("none", lambda sdk: None)
    yield _with_inputs("one text", lambda sdk: f"{S3}/train")
    yield _with_inputs("two texts", lambda sdk: {"train": f"{S3}/train", "test": f"{S3}/test"})
    yield _with_inputs("alone", lambda sdk: sdk.TrainingInput(f"{S3}/train"))
    yield _with_inputs(
        "alone, fast file", lambda sdk: sdk.TrainingInput(f"{S3}/train", input_mode="FastFile")
    )
    for name, given in kinds.items():
        yield _with_inputs(
            name, lambda sdk, given=given: {"train": sdk.TrainingInput(f"{S3}/train", **given)}
        )
    yield _with_inputs(
        "shuffled",
        lambda sdk: {
            "train": sdk.TrainingInput(
                f"{S3}/train",
                s3_data_type="ManifestFile",
                shuffle_config=sdk.ShuffleConfig(1234),
            )
        },
    )
    for kind, path in {"EFS": "/data", "FSxLustre": "/fsx/data"}.items():
        yield _with_inputs(
            f"file system {kind}",
            lambda sdk, kind=kind, path=path: {
                "train": sdk.FileSystemInput("fs-0123456789", kind, path, "ro")
            },
            **VPC,
        )
    yield _pytorch(
        "inputs: routed to groups",
        _on("mpi", "two groups"),
        inputs=lambda sdk: {
            "raw": sdk.TrainingInput(f"{S3}/raw", instance_groups=["data_group"]),
            "all": sdk.TrainingInput(f"{S3}/all", instance_groups=["data_group", "train_group"]),
        },
    )
    yield _pytorch(
        "inputs: routed to groups in part",
        _on("smddp", "two groups"),
        inputs=lambda sdk: {
            "raw": sdk.TrainingInput(f"{S3}/raw", instance_groups=["data_group"]),
            "all": sdk.TrainingInput(f"{S3}/all"),
        },
    )


def _with_inputs(name: str, inputs: Callable[[Sdk], Any], **more: Any) -> Configuration:
    return _pytorch(f"inputs: {name}", lambda sdk: {**_plain(), **more}, inputs=inputs)


# Options ---------------------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "volume": {"volume_size": 99, "volume_kms_key": KEY, "instance_type": "ml.c5.xlarge"},
    "warm pool": {"keep_alive_period_in_seconds": 600},
    "training plan": {"training_plan": PLAN},
    "max_run": {"max_run": 3600},
    "spot": {"use_spot_instances": True, "max_wait": 90_000, "checkpoint_s3_uri": f"{S3}/saved"},
    "spot, path": {
        "use_spot_instances": True,
        "max_wait": 90_000,
        "checkpoint_s3_uri": f"{S3}/saved",
        "checkpoint_local_path": "/opt/ml/saved",
    },
    "checkpoints": {"checkpoint_s3_uri": f"{S3}/saved"},
    "spot without checkpoints": {"use_spot_instances": True, "max_wait": 90_000},
    "retries": {"max_retry_attempts": 3},
    "fast file": {"input_mode": "FastFile"},
    "pipe": {"input_mode": "Pipe"},
    "model": {"model_uri": f"{S3}/model.tar.gz"},
    "model channel": {"model_uri": f"{S3}/model.tar.gz", "model_channel_name": "start"},
    "output": {"output_path": f"{S3}/output", "output_kms_key": KEY},
    "output with slash": {"output_path": f"{S3}/output/"},
    "not compressed": {"disable_output_compression": True},
    "code location": {"code_location": f"{S3}/code"},
    "vpc": VPC,
    "encrypted": {**VPC, "encrypt_inter_container_traffic": True},
    "isolated": {"enable_network_isolation": True},
    "session chaining": {"enable_session_tag_chaining": True},
    "tags": {"tags": [{"Key": "team", "Value": "vision"}, {"Key": "cost", "Value": "7"}]},
    "tags as mapping": {"tags": {"team": "vision"}},
    "metrics": {"metric_definitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]},
    "metrics over time": {"enable_sagemaker_metrics": True},
    "metrics not over time": {"enable_sagemaker_metrics": False},
    "environment": {"environment": {"NCCL_DEBUG": "WARN"}},
    "hyperparameters": {
        "hyperparameters": {
            "epochs": 3,
            "learning-rate": 0.001,
            "name": "abc",
            "flag": True,
            "none": None,
            "layers": [64, 32],
            "nested": {"a": {"b": 1}},
        }
    },
    "no debugger": {"debugger_hook_config": False, "disable_profiler": True},
    "no debugger, profiler": {"debugger_hook_config": False},
    "no profiler, debugger": {"disable_profiler": True},
    "registry": {"image_uri": "registry.example/torch:1", **REGISTRY},
    "registry with login": {
        "image_uri": "registry.example/torch:1",
        **REGISTRY,
        "training_repository_credentials_provider_arn": LOGIN,
    },
    "infra check": {"enable_infra_check": True},
    "remote debug": {"enable_remote_debug": True},
    "log level": {"container_log_level": 10},
    "role by name": {"role": "Training"},
    "m4": {"instance_type": "ml.m4.xlarge"},
}
#: Options again, for a job that AWS's toolkit starts, where even the hyperparameters are equal.
TOOLKIT_OPTIONS = (
    "warm pool",
    "spot, path",
    "fast file",
    "model",
    "output",
    "output with slash",
    "code location",
    "vpc",
    "isolated",
    "hyperparameters",
    "log level",
    "metrics over time",
)


def _options() -> Iterator[Configuration]:
    for name, more in OPTIONS.items():
        yield _pytorch(f"option: {name}", lambda sdk, more=more: {**_plain(), **more})
    for name in TOOLKIT_OPTIONS:
        yield _smddp_option(name, OPTIONS[name])
    yield _smddp_option("source in S3", {"source_dir": f"{S3}/mine/sourcedir.tar.gz"})


def _smddp_option(name: str, more: Arguments) -> Configuration:
    return _pytorch(f"smddp option: {name}", lambda sdk: {**_on("smddp", "two")(sdk), **more})


# Images and programs ---------------------------------------------------------------------------


def _images() -> Iterator[Configuration]:
    rows = [
        ("1.13.1", "py39", "ml.c5.xlarge"),
        ("2.0.1", "py310", GPU),
        ("2.2", "py310", "ml.m5.xlarge"),
        ("2.5.1", "py311", BIG),
        ("2.1.0", "py310", "ml.p5.48xlarge"),
        ("2.1.2", "py310", "ml.trn1.32xlarge"),
    ]
    for version, python, instance_type in rows:
        image = _plain(version, python, instance_type)
        yield _pytorch(
            f"image: pytorch {version} on {instance_type}", lambda sdk, image=image: dict(image)
        )
    for version in ("2.1.2", "2.3.1", "2.5.1"):
        yield _pytorch(
            f"image: smp with pytorch {version}",
            lambda sdk, v=version: {
                **_plain(v, "py310" if v == "2.1.2" else "py311", BIG, 2),
                "distribution": STRATEGIES["smp torchrun"],
            },
        )
    yield _pytorch("image: named", lambda sdk: {"image_uri": TORCH_IMAGE, **_machine()})
    yield Configuration(
        name="image: own, with a script",
        estimator="Estimator",
        arguments=lambda sdk: {
            "image_uri": OWN_IMAGE,
            "entry_point": "train.py",
            **_machine(),
            "hyperparameters": {"epochs": 3, "name": "abc"},
        },
    )


#: Hyperparameters of built-in algorithms and images of the user's own.
TYPED: dict[str, Any] = {
    "texts": {"objective": "reg:squarederror", "num_round": "50"},
    "numbers": {"num_round": 50, "eta": 0.2},
    "flags": {"flag": True, "none": None},
    "lists": {"layers": [64, 32], "nested": {"a": "b"}},
}


def _programs() -> Iterator[Configuration]:
    for image in (XGBOOST, OWN_IMAGE):
        for name, hyperparameters in TYPED.items():
            yield Configuration(
                name=f"program: {image.rpartition('/')[2]}, {name}",
                estimator="Estimator",
                arguments=lambda sdk, image=image, hyperparameters=hyperparameters: {
                    "image_uri": image,
                    **_machine("ml.m5.xlarge"),
                    "hyperparameters": hyperparameters,
                },
            )
    options = {
        "command": {
            "container_entry_point": ["python3", "-m", "mine"],
            "container_arguments": ["--fast"],
        },
        "spot": OPTIONS["spot"],
        "vpc": OPTIONS["encrypted"],
        "isolated": {"enable_network_isolation": True},
        "output": OPTIONS["output"],
        "groups": {},
    }
    for name, more in options.items():
        yield Configuration(
            name=f"program: {name}",
            estimator="Estimator",
            arguments=lambda sdk, name=name, more=more: {
                "image_uri": OWN_IMAGE,
                **more,
                **_machines(sdk, "two groups" if name == "groups" else "two")[0],
            },
        )


def _sessions() -> Iterator[Configuration]:
    """Yield jobs without an output_path, whose places are the session's."""
    for name, session in {
        "bucket": {"default_bucket": "my-bucket"},
        "bucket and prefix": {
            "default_bucket": "my-bucket",
            "default_bucket_prefix": "team/vision",
        },
        "prefix": {"default_bucket_prefix": "team"},
    }.items():
        for estimator, arguments in {
            "PyTorch": lambda sdk: {**_on("smddp", "two")(sdk), "output_path": None},
            "Estimator": lambda sdk: {
                "image_uri": OWN_IMAGE,
                **_machine("ml.m5.xlarge"),
                "output_path": None,
            },
        }.items():
            yield Configuration(
                name=f"session: {name}, {estimator}",
                estimator=estimator,
                arguments=arguments,
                session=session,
            )

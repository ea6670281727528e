"""One change to any legal job for each rule, after which that rule refuses it, or warns.

Here are the rules that neither tests/spec/bad nor LIMITS of tests/spec/test_limits.py break; a test
names the findings of launcher/client/spec that none of the three brings about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from launcher.client.spec import (
    DataParallel,
    DataService,
    InstanceGroup,
    JobSpec,
    Mpi,
    MultiWorkerMirrored,
    ParameterServer,
    Toolkit,
    Tracking,
    TrainingInput,
)
from launcher.shared import Lifetime, Role

S3 = "s3://my-bucket/data"
NO_VPC = {
    "subnets": (),
    "security_group_ids": (),
    "training_repository_access_mode": None,
    "training_repository_credentials_provider_arn": None,
}
CPU, GPU = InstanceGroup("cpu", "ml.c5.xlarge"), InstanceGroup("gpu", "ml.p3.8xlarge")
SERVER = InstanceGroup("server", "ml.c5.xlarge", command=("sleep", "600"))
SERVICE = DataService(datasets=("pipeline:train_set",))
ON = {"enabled": True}
PS = ParameterServer(server_group="ps")
SMDDP = Toolkit(strategies={"smdistributed": {"dataparallel": ON}})


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`break_rule` changes a legal job; `says` is part of what is then said of it."""

    says: str
    break_rule: Callable[[JobSpec], JobSpec]
    is_warning: bool = False


def _set(says: str, *, is_warning: bool = False, **changes: Any) -> Mutant:
    return Mutant(says=says, break_rule=lambda spec: spec.replace(**changes), is_warning=is_warning)


def _groups(says: str, *groups: InstanceGroup, is_warning: bool = False, **also: Any) -> Mutant:
    """Other machines; channels that were routed to the old ones are taken out."""
    changes = {
        "instance_type": None,
        "instance_count": None,
        "keep_alive_period_in_seconds": None,
        "volume_kms_key": None,
        "data_service": SERVICE,
        "inputs": {},
    }
    return _set(says, is_warning=is_warning, **{**changes, "instance_groups": groups, **also})


def _one_type(says: str, *, is_warning: bool = False, **also: Any) -> Mutant:
    """One kind of host instead of groups."""
    machines = {"instance_groups": (), "instance_type": "ml.c5.xlarge", "instance_count": 1}
    changes = {**machines, "inputs": {}, "data_service": None, "volume_kms_key": None, **also}
    return _set(says, is_warning=is_warning, **changes)


def _channel(says: str, name: str = "broken", **fields: Any) -> Mutant:
    channel = TrainingInput(**{"s3_data": S3, **fields})
    return Mutant(
        says=says,
        break_rule=lambda spec: spec.replace(inputs={**spec.inputs, name: channel}),
    )


def _add(says: str, field: str, name: str, value: Any) -> Mutant:
    return Mutant(
        says=says,
        break_rule=lambda spec: spec.replace(**{field: {**getattr(spec, field), name: value}}),
    )


def _toolkit(says: str, **strategies: Any) -> Mutant:
    """Another of AWS's libraries, or other words for one."""
    return _set(says, distribution=Toolkit(strategies={"parameter_server": ON, **strategies}))


def _task(says: str, task: str = "pipeline:train_set", **also: Any) -> Mutant:
    """A job whose ranks run Launcher's own trainer."""
    changes = {"entry_point": "", "task": task, "distribution": DataParallel(), **also}
    return _set(says, **changes)


def _scripts(says: str, distribution: Any, *more: InstanceGroup, **of_each: Any) -> Mutant:
    """Two groups without roles, beside others."""
    groups = [InstanceGroup(name, "ml.c5.xlarge", **of_each) for name in ("left", "right")]
    return _groups(says, *groups, *more, distribution=distribution, data_service=None, inputs={})


_typed = dataclasses.replace

MUTANTS = (
    # machines
    _groups("is not in the catalogue", _typed(GPU, instance_type="ml.g9.xlarge"), is_warning=True),
    _groups(
        "but no distribution", _typed(GPU, instance_count=2), distribution=None, is_warning=True
    ),
    _set("is null, which the script gets", hyperparameters={"lr": None}, is_warning=True),
    # distributions
    _set('"-machinefile" is set by', distribution=Mpi(custom_options=("-machinefile", "a"))),
    _set("a word for mpirun is empty", distribution=Mpi(custom_options=("-x", ""))),
    _toolkit('"horovod" is not a distribution', horovod=ON),
    _toolkit('"pytorchxla" is given together with "parameter_server"', pytorchxla=ON),
    _toolkit("which starts its own processes", mpi=ON),
    _toolkit("does not name one library", smdistributed={}),
    _toolkit('smdistributed has no "dataparalel"', smdistributed={"dataparalel": ON}),
    _toolkit('"parameter_server" is not enabled', parameter_server={"enabled": False}),
    _toolkit("custom_mpi_options is not text", parameter_server={**ON, "custom_mpi_options": 1}),
    _one_type(
        "TF_CONFIG is set by Launcher itself",
        distribution=MultiWorkerMirrored(),
        environment={"TF_CONFIG": "{}"},
    ),
    _groups(
        "would be an evaluator",
        _typed(CPU, instance_group_name="evaluator", role=Role.DATA),
        GPU,
        distribution=MultiWorkerMirrored(),
        data_service=SERVICE,
    ),
    _groups("which is not in the job", CPU, GPU, distribution=PS, data_service=None),
    _one_type("which is not in the job", instance_count=2, distribution=PS),
    _groups(
        "which has other work",
        _typed(CPU, role=Role.TRAIN),
        _typed(SERVER, instance_group_name="ps"),
        distribution=PS,
        data_service=None,
    ),
    _one_type("need a chief and a worker", instance_count=1, distribution=ParameterServer()),
    _one_type(
        "read their data inside TensorFlow",
        instance_count=2,
        distribution=ParameterServer(),
        data_service=SERVICE,
    ),
    _groups(
        "on one group, but 0 train",
        _typed(CPU, role=Role.DATA),
        distribution=SMDDP,
        data_service=None,
    ),
    _set("cannot serve AWS's libraries", distribution=SMDDP, data_service=SERVICE),
    _groups(
        "has a command, which AWS's toolkit does not run",
        SERVER,
        GPU,
        distribution=SMDDP,
        data_service=None,
    ),
    # storage, warm pools, training plans, capacity
    _set("must be a number of seconds", environment={"LAUNCHER_INSTALL_TIMEOUT": "30m"}),
    _set("is not a folder of this machine", tracking=Tracking(tensorboard=S3)),
    _set("without mlflow", tracking=Tracking(callback="a:b", mlflow_experiment="c")),
    # the image, and whose program runs in it
    _set(
        "cannot be a transformers_version",
        framework="pytorch",
        framework_version="2.8",
        transformers_version="four",
    ),
    _set(
        "but no framework_version",
        image_uri=None,
        framework="pytorch",
        framework_version=None,
        transformers_version="4.56",
    ),
    # code
    _set(
        "is a shell script beside a distribution",
        entry_point="train.sh",
        distribution=DataParallel(),
    ),
    _set("is in S3, and is not an archive", source_dir="s3://bucket/code"),
    _set("to which nothing is added", source_dir="s3://bucket/code.tar.gz", dependencies=("lib",)),
    _task("runs under torchrun, and distribution is one of AWS's", distribution=SMDDP),
    # channels
    _channel('".." cannot be the name of a channel', name=".."),
    _groups(
        "gets only its share",
        _typed(CPU, instance_count=2),
        GPU,
        inputs={"a": TrainingInput(S3, distribution="ShardedByS3Key")},
        is_warning=True,
    ),
    # values
    _one_type(
        "checksums does nothing with the engine 'tf'",
        is_warning=True,
        data_service=_typed(SERVICE, engine="tf", checksums=True, local_workers=1),
    ),
    _one_type(
        "tf.data's servers have no authentication",
        is_warning=True,
        data_service=_typed(SERVICE, engine="tf", local_workers=1),
        enable_network_isolation=None,
        **NO_VPC,
    ),
    # groups that run the script
    _groups("has pass_hyperparameters, but no", GPU, _typed(CPU, pass_hyperparameters=True)),
    _scripts("names no group, and 2 groups run", DataParallel()),
    _scripts("names 2 groups", Mpi(instance_groups=("left", "right"))),
    _scripts("which is not in the job", Mpi(instance_groups=("gone",))),
    _scripts("whose role is", Mpi(instance_groups=("server",)), SERVER),
    _scripts(
        "but another group trains", Mpi(instance_groups=("left",)), _typed(GPU, role=Role.TRAIN)
    ),
    _scripts("refers to no other group", None, lifetime=Lifetime.TRAIN),
    _task(
        "runs the script, but the job has",
        instance_groups=(_typed(CPU, role=Role.SCRIPT), GPU),
        instance_type=None,
        instance_count=None,
        data_service=None,
        inputs={},
    ),
    _add("is not JSON", "hyperparameters", "a", {1, 2}),
    _add("is set by Launcher itself", "environment", "LAUNCHER_PARALLEL", "{}"),
    _add("is set by Launcher itself", "environment", "LAUNCHER_SECRET_A", "env"),
    _add("that no environment variable can have", "secrets", "a-b", "env"),
    _add("neither env nor an ARN", "secrets", "A", "a value"),
    _set("A is in environment, too", environment={"A": "x"}, secrets={"A": "env"}),
    _set("which this job does not start", distribution=SMDDP, secrets={"A": "env"}),
)

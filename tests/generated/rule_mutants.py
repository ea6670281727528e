"""One change to any legal job for each rule, after which that rule refuses it, or warns.

To add a rule's mutant: a line here, or a file in tests/spec/bad. test_rule_mutants.py names the
findings of launcher/client/spec that no mutant brings about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.client.spec import (
    CapacityRetry,
    DataParallel,
    DataService,
    FileSystemInput,
    InstanceGroup,
    JobSpec,
    MetricDefinition,
    ModelParallel,
    Mpi,
    MultiWorkerMirrored,
    ParameterServer,
    Ready,
    Toolkit,
    Tracking,
    TrainingInput,
)
from launcher.shared import Lifetime, Role

S3 = "s3://my-bucket/data"
VPC = {"subnets": ("subnet-1",), "security_group_ids": ("sg-1",)}
NO_VPC = {
    "subnets": (),
    "security_group_ids": (),
    "training_repository_access_mode": None,
    "training_repository_credentials_provider_arn": None,
}
FSX = {
    "file_system_id": "fs-0123456789abcdef0",
    "file_system_type": "FSxLustre",
    "directory_path": "/mount/data",
}
CPU, GPU = InstanceGroup("cpu", "ml.c5.xlarge"), InstanceGroup("gpu", "ml.p3.8xlarge")
SERVER = InstanceGroup("server", "ml.c5.xlarge", command=("sleep", "600"))
SERVICE = DataService(datasets=("pipeline:train_set",))
ON = {"enabled": True}
#: Of a model that is cut for two ranks.
FILE = str(Path(__file__).parents[1] / "spec" / "bad" / "partition.json")
SHARDED = str(Path(FILE).with_name("partition_sharded.json"))
PS = ParameterServer(server_group="ps")
SERVERS = Toolkit(strategies={"parameter_server": ON})
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


def _without_script(says: str, **also: Any) -> Mutant:
    """A job that runs its image's own program."""
    own = {"entry_point": "", "source_dir": None, "dependencies": (), "distribution": None}
    return _one_type(says, **{**own, "image_uri": "image:1", "framework_version": None, **also})


def _mount(says: str, **fields: Any) -> Mutant:
    mounted = FileSystemInput(**{**FSX, **fields})
    return _one_type(says, **VPC, inputs={"mounted": mounted})


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


def _many(says: str, field: str, count: int, value: Any, **also: Any) -> Mutant:
    return _set(says, **{field: {f"N{number}": value for number in range(count)}}, **also)


def _both_ways(spec: JobSpec) -> JobSpec:
    return spec.replace(
        instance_type="ml.c5.xlarge", instance_groups=spec.instance_groups or (GPU,)
    )


def _absent_group(spec: JobSpec) -> JobSpec:
    """A channel that goes to a group which the job, with or without groups, does not have."""
    return spec.replace(inputs={"broken": TrainingInput(S3, instance_groups=("no such group",))})


def _toolkit(says: str, **strategies: Any) -> Mutant:
    """Another of AWS's libraries, or other words for one."""
    return _set(says, distribution=Toolkit(strategies={"parameter_server": ON, **strategies}))


def _cut(says: str, **fields: Any) -> Mutant:
    """A model that is cut for two of four ranks."""
    model = ModelParallel(**{"processes_per_host": 4, **fields})
    return _one_type(says, instance_type="ml.p3.8xlarge", distribution=model)


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
    _groups("the job has no machines"),
    Mutant(says="is given beside instance_groups", break_rule=_both_ways),
    _groups("is not an instance type", _typed(GPU, instance_type="ml.p3.8xlrage")),
    _groups("is not in the catalogue", _typed(GPU, instance_type="ml.g9.xlarge"), is_warning=True),
    _groups("has 0 instances", CPU, _typed(GPU, instance_count=0)),
    _groups(
        "is used together with cloud instance types",
        CPU,
        _typed(GPU, instance_type="local", role="train"),
    ),
    _groups('two groups are called "gpu"', GPU, GPU),
    _groups("it is not clear what group", _typed(CPU, instance_group_name="x"), CPU),
    _groups("no group trains", _typed(CPU, role=Role.DATA)),
    _groups("trains, and so does", _typed(CPU, role=Role.TRAIN), GPU),
    _groups("but nothing is served", _typed(CPU, role=Role.DATA), GPU, data_service=None),
    _groups(
        "but no distribution", _typed(GPU, instance_count=2), distribution=None, is_warning=True
    ),
    _set("is null, which the script gets", hyperparameters={"lr": None}, is_warning=True),
    # distributions
    _set("processes_per_host is 0", distribution=Mpi(processes_per_host=0)),
    _set('"--hostfile" is set by Launcher', distribution=Mpi(custom_options=("--hostfile", "a"))),
    _set('"-machinefile" is set by', distribution=Mpi(custom_options=("-machinefile", "a"))),
    _set("a word for mpirun is empty", distribution=Mpi(custom_options=("-x", ""))),
    _toolkit('"horovod" is not a distribution', horovod=ON),
    _toolkit('"pytorchxla" is given together with "parameter_server"', pytorchxla=ON),
    _toolkit("which starts its own processes", mpi=ON),
    _toolkit("does not name one library", smdistributed={}),
    _toolkit('smdistributed has no "dataparalel"', smdistributed={"dataparalel": ON}),
    _toolkit("modelparallel needs one of", smdistributed={"modelparallel": ON}),
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
        "cannot start parameter_server on one instance group",
        _typed(CPU, role=Role.DATA),
        GPU,
        distribution=SERVERS,
        data_service=None,
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
    # what ranks share
    _set("processes_per_host is 0", distribution=DataParallel(processes_per_host=0)),
    _set("accumulation is 0", distribution=DataParallel(accumulation=0)),
    _set('"fp32" is not a known precision', distribution=DataParallel(precision="fp32")),
    _set('"zip" is not a known compression', distribution=DataParallel(compression="zip")),
    _set("sharded is true", distribution=DataParallel(sharded=True, compression="fp16")),
    _set("in recomputed is empty", distribution=DataParallel(recomputed=("",))),
    _cut("partitions is 0", partitions=0),
    _cut('"stripes" is not a known placement', placement="stripes"),
    _cut('"1f1b" is not a known schedule', schedule="1f1b"),
    _cut('and schedule is "simple"', virtual_stages=2, schedule="simple"),
    _cut("into 3 equal rounds", schedule="zero_bubble", microbatches=7),
    _cut("fewer than the 2 partitions", microbatches=1),
    _cut("into 3 equal rounds", virtual_stages=2, microbatches=7),
    _cut("are both given", starts=("a",), stages={"a": 1}),
    _cut("2 starts for 2 stages", starts=("a", "b")),
    _cut("2 starts for 4 stages (2 partitions x 2)", virtual_stages=2, starts=("a", "b")),
    _cut('"a" is listed 2 times', starts=("a", "a")),
    _cut("default_stage is 2", default_stage=2),
    _cut("is pinned to stage 2", stages={"a": 1, "b": 2}),
    _cut("1 of 2 stages without a module: stage 1 is the first", stages={"a": 0}),
    _cut("does not divide the ranks: 4 (1 x ml.p3.8xlarge, 4 per host)", partitions=3),
    _cut("does not divide the replicas: 2 (1 x ml.p3.8xlarge, 4 per host", shard_degree=3),
    _cut("starts is given beside partition_file", partition_file="a", starts=("a",)),
    _cut("partition_file is empty", partition_file=""),
    _cut("absent.json cannot be read: No such file", partition_file="/absent.json"),
    _cut("microbatches is 4, and partition.json has 2", partition_file=FILE, microbatches=4),
    _cut("its ranks would need more memory than predicted", partition_file=SHARDED),
    _cut(
        "partition.json: partitions is 2, which does not divide the ranks: 3",
        partition_file=FILE,
        processes_per_host=3,
    ),
    _cut("stages is given beside auto_partition", auto_partition=True, stages={"a": 1}),
    _cut("optimize is given, and auto_partition is not", optimize="memory"),
    _cut("memory_cap is 0", auto_partition=True, memory_cap=0),
    _task("nothing specifies where the task's model is cut", distribution=ModelParallel()),
    # storage, warm pools, training plans, capacity
    _one_type("has disks of its own", instance_type="ml.g5.xlarge", volume_kms_key="alias/a"),
    _groups("given together with instance_groups", GPU, keep_alive_period_in_seconds=600),
    _one_type(
        "AWS is not documented to keep",
        is_warning=True,
        keep_alive_period_in_seconds=600,
        use_spot_instances=True,
        max_wait=10**9,
        checkpoint_s3_uri=S3,
    ),
    _set("attempts is 0", capacity_retry=CapacityRetry(attempts=0)),
    _set("wait_seconds is 0", capacity_retry=CapacityRetry(wait_seconds=0)),
    _set("must be a number of seconds", environment={"LAUNCHER_INSTALL_TIMEOUT": "30m"}),
    _set("names no tracker", tracking=Tracking()),
    _set("is not a folder of this machine", tracking=Tracking(tensorboard=S3)),
    _set("MLflow has no store at", tracking=Tracking(mlflow="ftp://server")),
    _set("has a name or password", tracking=Tracking(mlflow="https://me:secret@server")),
    _set("'s database has a password", tracking=Tracking(mlflow="postgresql://me:secret@db/ml")),
    _set("without mlflow", tracking=Tracking(callback="a:b", mlflow_experiment="c")),
    _set("names no function", tracking=Tracking(callback="a.b")),
    _groups("cannot be an alternative of", _typed(GPU, alternatives=("local",))),
    _groups("is listed before", _typed(GPU, alternatives=("ml.p3.8xlarge",))),
    _groups("of its own", _typed(GPU, alternatives=("ml.g5.xlarge",)), volume_kms_key="alias/a"),
    _groups("is not an instance type", _typed(GPU, alternatives=("ml.p3.8xlrage",))),
    # the image, and whose program runs in it
    _without_script("cannot be an image", image_uri="a b"),
    _without_script("beside image_uri", algorithm_arn="mine"),
    _set("beside entry_point", image_uri=None, algorithm_arn="mine"),
    _without_script(
        "beside framework_version",
        image_uri=None,
        algorithm_arn="mine",
        framework="pytorch",
        framework_version="2.2",
    ),
    _set("is not a known framework", framework="torch"),
    _set("cannot be a framework_version", framework="pytorch", framework_version="two"),
    _set("cannot be a py_version", framework="pytorch", py_version="3.10"),
    _set("but no framework", framework=None, py_version="py310"),
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
    _set("is given beside entry_point", container_entry_point=("sh", "go")),
    _without_script('"entry_point" is missing', image_uri=None),
    _without_script('"entry_point" is missing', distribution=DataParallel()),
    _without_script("is given beside task", container_arguments=("x",), task="pipeline:train_set"),
    _without_script(
        "algorithm_arn is given beside task",
        image_uri=None,
        algorithm_arn="mine",
        task="pipeline:train_set",
    ),
    _set("but the job is in none", **{**NO_VPC, "training_repository_access_mode": "Vpc"}),
    _set(
        "credentials for a registry that is not in a VPC",
        training_repository_access_mode="Platform",
        training_repository_credentials_provider_arn="arn:aws:lambda:x:111122223333:function:f",
    ),
    # what is watched
    _set("is not the URI of data", debugger_hook_config={"S3OutputPath": "here"}),
    _set("depends on the region", rules=[{"RuleEvaluatorImage": "DEFAULT_RULE_EVALUATOR_IMAGE"}]),
    _set("beside profiler_config", disable_profiler=True, profiler_config={"S3OutputPath": S3}),
    # programs of a group
    _groups("has role command, but no command", _typed(CPU, role=Role.COMMAND), GPU),
    _without_script(
        "without a script Launcher does not start",
        instance_type=None,
        instance_count=None,
        instance_groups=(_typed(CPU, role=Role.DATA), GPU),
    ),
    _groups("has a command, and role", _typed(SERVER, role=Role.TRAIN), GPU),
    _groups("has ready, but no command", _typed(CPU, ready=Ready(port=1)), GPU),
    _groups("given as the sign", _typed(SERVER, ready=Ready()), GPU),
    _groups("port is 0", _typed(SERVER, ready=Ready(port=0)), GPU),
    _groups("file is empty", _typed(SERVER, ready=Ready(file=" ")), GPU),
    _groups("seconds is -1", _typed(SERVER, ready=Ready(seconds=-1)), GPU),
    _groups("timeout is 0", _typed(SERVER, ready=Ready(port=1, timeout=0)), GPU),
    _groups("but given up after 5", _typed(SERVER, ready=Ready(seconds=9, timeout=5)), GPU),
    _groups("there is no file", _typed(SERVER, command=("python", "absent.py")), GPU),
    # spot instances and checkpoints
    _set("spot instances without max_wait", use_spot_instances=True, max_wait=None),
    _set("but the job uses no spot", use_spot_instances=False, max_wait=10**9),
    _set("is less than max_run", use_spot_instances=True, max_wait=1),
    _set("but no checkpoint_s3_uri", checkpoint_s3_uri=None, checkpoint_local_path="/opt/ml/saved"),
    _set("cannot be the checkpoint folder", checkpoint_s3_uri=S3, checkpoint_local_path="/opt"),
    _set(
        "an interruption loses all work",
        use_spot_instances=True,
        max_wait=10**9,
        checkpoint_s3_uri=None,
        checkpoint_local_path=None,
        allow_restart_from_scratch=False,
    ),
    # code
    _set("is not a Python file", entry_point="train.txt"),
    _set(
        "is a shell script beside a distribution",
        entry_point="train.sh",
        distribution=DataParallel(),
    ),
    _set("is outside source_dir", entry_point="../train.py"),
    _set("is in S3, and is not an archive", source_dir="s3://bucket/code"),
    _set("to which nothing is added", source_dir="s3://bucket/code.tar.gz", dependencies=("lib",)),
    _set("there is no file", entry_point="absent.py"),
    _task("is given beside entry_point", entry_point="train.py"),
    _task("runs under torchrun, and distribution is none", distribution=None),
    _task("runs under torchrun, and distribution is mpi", distribution=Mpi()),
    _task("runs under torchrun, and distribution is one of AWS's", distribution=SMDDP),
    _task("does not name a function", task="task.py"),
    _task("there is no module", task="absent:make"),
    _task("defines no", task="pipeline:absent"),
    _set("does not name a function", data_service=DataService(datasets=("pipeline",))),
    _set("is listed twice", data_service=DataService(datasets=SERVICE.datasets * 2)),
    _set("there is no module", data_service=DataService(datasets=("absent:f",))),
    _set("defines no", data_service=DataService(datasets=("pipeline:absent",))),
    # channels
    _many("20 channels", "inputs", 20, TrainingInput(S3)),
    _channel("is reserved for the code", name="code"),
    _channel('".." cannot be the name of a channel', name=".."),
    _channel("is not the URI of data", s3_data="data"),
    _channel("is not a known compression", compression="zip"),
    _channel("without attribute_names", s3_data_type="AugmentedManifestFile"),
    _channel("attribute_names are given", attribute_names=("a",)),
    _channel("is of AutoML jobs", target_attribute_name="a"),
    _channel("FastFile cannot read", input_mode="FastFile", s3_data_type="ManifestFile"),
    Mutant(says="the channel goes to group", break_rule=_absent_group),
    _groups(
        "no channel goes to group",
        CPU,
        GPU,
        inputs={"a": TrainingInput(S3, instance_groups=("gpu",))},
        is_warning=True,
    ),
    _groups(
        "gets only its share",
        _typed(CPU, instance_count=2),
        GPU,
        inputs={"a": TrainingInput(S3, distribution="ShardedByS3Key")},
        is_warning=True,
    ),
    _one_type(
        "is given twice", inputs={"a": TrainingInput(S3)}, model_uri=S3, model_channel_name="a"
    ),
    _set("is reserved for the code", model_uri=S3, model_channel_name="code"),
    _set("is not the URI of data", model_uri="model.tar.gz"),
    _many("19 channels", "inputs", 19, TrainingInput(S3), model_uri=S3),
    # file systems
    _mount("cannot be a folder of the file system", directory_path="data"),
    _one_type(
        "a file system is in a VPC",
        **NO_VPC,
        inputs={"mounted": FileSystemInput(**FSX)},
    ),
    _groups(
        "names no instance groups, and",
        CPU,
        GPU,
        **VPC,
        inputs={
            "mounted": FileSystemInput(**FSX),
            "a": TrainingInput(S3, instance_groups=("cpu",)),
        },
    ),
    # values
    _set("volume_size is 20000", volume_size=20000),
    _set("workers_per_host is 0", data_service=_typed(SERVICE, workers_per_host=0)),
    _set("start_timeout is 0", data_service=_typed(SERVICE, start_timeout=0)),
    _set("too little to hold batches", data_service=_typed(SERVICE, prefetch_bytes=1)),
    _set("local_workers is 1025", data_service=_typed(SERVICE, local_workers=1025)),
    _set("metrics_port is 0", data_service=_typed(SERVICE, metrics_port=0)),
    _set("Launcher itself listens on", data_service=_typed(SERVICE, metrics_port=7771)),
    _one_type("data_service does nothing", is_warning=True, data_service=DataService()),
    _one_type(
        "workers_per_host does nothing",
        is_warning=True,
        data_service=_typed(SERVICE, workers_per_host=2),
    ),
    _one_type(
        'no package here has a data engine "made-up"',
        is_warning=True,
        data_service=_typed(SERVICE, engine="made-up", local_workers=1),
    ),
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
    _add("toolkit keeps", "hyperparameters", "sagemaker_program", "x"),
    _add("cannot be the name of a hyperparameter", "hyperparameters", "a=b", 1),
    _add("that no variable can hold", "hyperparameters", "a", ["\0"]),
    _add("is not JSON", "hyperparameters", "a", {1, 2}),
    _many("101 environment", "environment", 101, ""),
    _add("is set by Launcher itself", "environment", "LAUNCHER_TOKEN", "x"),
    _add("is set by Launcher itself", "environment", "LAUNCHER_PARALLEL", "{}"),
    _add("is set by Launcher itself", "environment", "SM_MODEL_DIR", "/tmp"),
    _add("so the secret would be lost", "secrets", "MASTER_ADDR", "env"),
    _add("that no variable can hold", "environment", "A", "\0"),
    _add("is set by Launcher itself", "environment", "LAUNCHER_SECRET_A", "env"),
    _add("that no environment variable can have", "secrets", "a-b", "env"),
    _add("neither env nor an ARN", "secrets", "A", "a value"),
    _set("A is in environment, too", environment={"A": "x"}, secrets={"A": "env"}),
    _set("which this job does not start", distribution=SMDDP, secrets={"A": "env"}),
    _add("has a prefix that AWS keeps", "tags", "aws:a", ""),
    _set("is not a regular expression", metric_definitions=[MetricDefinition("a", "(")]),
    _set("has no group", metric_definitions=[MetricDefinition("a", "x")]),
    _set("without security_group_ids", subnets=("a",), security_group_ids=()),
    _set("cannot be an image", image_uri="a b"),
    _set("is neither the name nor the ARN", role="a b"),
)

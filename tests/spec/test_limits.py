"""Limits and forms, from both sides: what is just allowed, and what is just refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from launcher import (
    DataParallel,
    DataService,
    FileSystemInput,
    InstanceGroup,
    Jax,
    JobSpec,
    MetricDefinition,
    ModelParallel,
    Mpi,
    Ready,
    Retry,
    TrainingInput,
)

#: Fields of a job.
Job = dict[str, Any]
#: (just allowed, just refused, what is said then)
Limit = tuple[Job, Job, str]
ONE_HOST = JobSpec(entry_point="train.py", instance_type="ml.c5.xlarge", instance_count=1)
S3 = "s3://my-bucket/"


def examine(spec: JobSpec) -> Sequence[Any]:
    # Imported here: `make same` reads the rows below in older trees, where rules may be elsewhere.
    from launcher.client.request import find_limits
    from launcher.client.spec import examine as examine_rules

    return examine_rules(spec, find_limits)


def findings(spec: JobSpec) -> list[tuple[str, bool]]:
    return [(finding.what, finding.is_warning) for finding in examine(spec)]


def many(count: int, value: Any) -> Job:
    return {f"N{number}": value for number in range(count)}


def of(
    field: str, allowed: Any, refused: Any, what: str, make: Callable[..., Job] = dict, **more: Any
) -> Limit:
    """Two jobs that differ in one field. make: makes each; more: the fields that both have."""
    return make(**{field: allowed}, **more), make(**{field: refused}, **more), what


def channel(**fields: Any) -> Job:
    return {"inputs": {"a": TrainingInput(**{"s3_data": S3, **fields})}}


def metric(name: str = "loss", regex: str = "(x)") -> Job:
    return {"metric_definitions": [MetricDefinition(name, regex)]}


def network(subnets: int, security_groups: int, identity: str = "id-") -> Job:
    return {
        "subnets": [f"{identity}{number}" for number in range(subnets)],
        "security_group_ids": [f"{identity}{number}" for number in range(security_groups)],
    }


def service(**fields: Any) -> Job:
    return {"data_service": DataService(**fields)}


def replicas(**fields: Any) -> Job:
    return {"distribution": DataParallel(**fields)}


def retry(**fields: Any) -> Job:
    return {"retry": Retry(**fields)}


def groups(*names: str, **fields: Any) -> Job:
    """The first group trains, the others prepare data."""
    roles = ["train", *["data"] * (len(names) - 1)]
    return {
        "instance_type": None,
        "instance_count": None,
        "data_service": DataService(datasets=("m:f",)),
        "instance_groups": [
            InstanceGroup(name, "ml.c5.xlarge", role=role)
            for name, role in zip(names, roles, strict=True)
        ],
    }


def script_groups() -> Job:
    """Two groups that run the script each, which starts its own processes."""
    machines = [InstanceGroup(name, "ml.c5.xlarge", role="script") for name in ("a", "b")]
    return {"instance_type": None, "instance_count": None, "instance_groups": machines}


def data_group(**fields: Any) -> Job:
    """A data service with a group that serves."""
    return {**groups("a", "b"), "data_service": DataService(datasets=("m:f",), **fields)}


def server(ready: Ready | None = None, **fields: Any) -> Job:
    """A group that runs a program beside the one that trains."""
    own = {"command": ("sleep", "600"), "ready": ready, **fields}
    return {
        "instance_type": None,
        "instance_count": None,
        "instance_groups": [
            InstanceGroup("server", "ml.c5.xlarge", **own),
            InstanceGroup("train", "ml.c5.xlarge", role="train"),
        ],
    }


def ready(**fields: Any) -> Job:
    return server(Ready(**fields))


def spot(max_run: int = 100, **fields: Any) -> Job:
    own = {"use_spot_instances": True, "checkpoint_s3_uri": S3, "max_run": max_run}
    return {"max_wait": max_run, **own, **fields}


def kept(folder: str | None, uri: str | None = S3) -> Job:
    return {"checkpoint_s3_uri": uri, "checkpoint_local_path": folder}


def cut(hosts: int = 2, **fields: Any) -> Job:
    """A model that is cut for the ranks of a job, two unless it is said."""
    return {"instance_count": hosts, "distribution": ModelParallel(**fields)}


def task(**fields: Any) -> Job:
    return {"entry_point": "", "task": "m:f", "distribution": DataParallel(), **fields}


def alternatives(*types: str) -> Job:
    made = groups("a")
    (group,) = made["instance_groups"]
    return {**made, "instance_groups": [dataclasses.replace(group, alternatives=types)]}


def no_script(**fields: Any) -> Job:
    return {"entry_point": "", **fields}


def mounted(vpc: bool = True, route: tuple[str, ...] = (), **fields: Any) -> Job:
    """A file system beside an ordinary channel, which may be routed to groups."""
    own = {
        "file_system_id": "fs-0123456789abcdef0",
        "file_system_type": "FSxLustre",
        "directory_path": "/mount",
    }
    inputs = {
        "a": FileSystemInput(**{**own, **fields}),
        "b": TrainingInput(S3, instance_groups=route),
    }
    return {**groups("a", "b"), **(network(1, 1) if vpc else {}), "inputs": inputs}


def registry(mode: str | None = "Vpc", provider: str | None = None) -> Job:
    return {
        **network(1, 1),
        "training_repository_access_mode": mode,
        "training_repository_credentials_provider_arn": provider,
    }


PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/"
LOGIN = "arn:aws:lambda:us-east-1:111122223333:function:login"

hyperparameters, environment = partial(of, "hyperparameters"), partial(of, "environment")
folder = partial(of, "folder", make=kept)

LIMITS: Mapping[str, Limit] = {
    "least max_run": ({"max_run": 1}, {"max_run": 0}, "max_run is 0"),
    "most max_run": ({"max_run": 2419200}, {"max_run": 2419201}, "max_run is 2419201"),
    "least volume": ({"volume_size": 1}, {"volume_size": 0}, "volume_size is 0"),
    "most volume": ({"volume_size": 16384}, {"volume_size": 16385}, "volume_size is 16385"),
    "processes": of("processes_per_host", 1, 0, "processes_per_host is 0", replicas),
    "processes of mpi": (
        {"distribution": Mpi(processes_per_host=1)},
        {"distribution": Mpi(processes_per_host=0)},
        "processes_per_host is 0",
    ),
    "workers": of("workers_per_host", 1, 0, "workers_per_host is 0", service, local_workers=1),
    "hang_timeout": of("hang_timeout", 0, -1, "hang_timeout is -1", replicas),
    "accumulation": of("accumulation", 1, 0, "accumulation is 0", replicas),
    "precision": of(
        "precision", "bf16", "bfloat16", '"bfloat16" is not a known precision', replicas
    ),
    "modules that are computed again": of(
        "recomputed", ("a", "b"), ("a", "a"), '"a" is listed 2 times in recomputed', replicas
    ),
    "compression of gradients": of(
        "compression", "power_sgd", "powersgd", '"powersgd" is not a known compression', replicas
    ),
    "compression of shards": (
        {"distribution": DataParallel(sharded=True)},
        {"distribution": DataParallel(sharded=True, compression="fp16")},
        'compression is "fp16", and sharded is true',
    ),
    "processes of a cut model": of("processes_per_host", 1, 0, "processes_per_host is 0", cut),
    "hang_timeout of a cut model": of("hang_timeout", 0, -1, "hang_timeout is -1", cut),
    "partitions": (cut(partitions=1), cut(partitions=0), "partitions is 0"),
    "virtual stages": (cut(virtual_stages=1), cut(virtual_stages=0), "virtual_stages is 0"),
    "shard degree": of("shard_degree", 2, 0, "shard_degree is 0", cut, hosts=4),
    "shard degree of replicas": (
        cut(hosts=8, shard_degree=4),
        cut(hosts=8, shard_degree=3),
        "shard_degree is 3, which does not divide the replicas: 4 (8 x ml.c5.xlarge, 1 per host, 2 "
        "partitions)",
    ),
    "microbatches": of("microbatches", 1, 0, "microbatches is 0", cut, schedule="simple"),
    "microbatches of interleaved stages": (
        cut(hosts=4, partitions=4, microbatches=4),
        cut(hosts=4, partitions=4, microbatches=3),
        "microbatches is 3, fewer than the 4 partitions",
    ),
    "microbatches of virtual stages": (
        cut(hosts=4, partitions=4, virtual_stages=2, microbatches=10),
        cut(hosts=4, partitions=4, virtual_stages=2, microbatches=11),
        "microbatches is 11, which cannot be divided into 2 equal rounds",
    ),
    "microbatches of virtual stages, few": (
        cut(hosts=4, partitions=4, virtual_stages=2, microbatches=4),
        cut(hosts=4, partitions=4, virtual_stages=2, microbatches=3),
        "microbatches is 3, fewer than the 4 partitions",
    ),
    "microbatches of one round": (
        cut(hosts=4, partitions=4, virtual_stages=2, schedule="zero_bubble", microbatches=7),
        cut(hosts=4, partitions=4, virtual_stages=2, schedule="zero_bubble", microbatches=9),
        "microbatches is 9, which cannot be divided into 2 equal rounds",
    ),
    "schedule of virtual stages": (
        cut(schedule="zero_bubble", virtual_stages=2),
        cut(schedule="simple", virtual_stages=2),
        'virtual_stages is 2, and schedule is "simple"',
    ),
    "zero bubble": (
        cut(hosts=4, partitions=4, schedule="zero_bubble", microbatches=8),
        cut(hosts=4, partitions=4, schedule="zero_bubble", microbatches=9),
        "microbatches is 9, which cannot be divided into 2 equal rounds",
    ),
    "ranks of a cut model": (
        cut(hosts=3, partitions=6, processes_per_host=2, microbatches=6),
        cut(hosts=3, partitions=4, processes_per_host=2),
        "partitions is 4, which does not divide the ranks: 6 (3 x ml.c5.xlarge, 2 per host)",
    ),
    "ranks of the train group": (
        {**data_group(), "distribution": ModelParallel(processes_per_host=2)},
        {**data_group(), "distribution": ModelParallel()},
        "partitions is 2, which does not divide the ranks: 1 (1 x ml.c5.xlarge, 1 per host)",
    ),
    "starts of one stage": (
        cut(partitions=1),
        cut(partitions=1, starts=("a",)),
        "1 starts for 1 stage",
    ),
    "starts": of("starts", ("a",), ("a", "b"), "2 starts for 2 stages", cut),
    "starts of virtual stages": (
        cut(virtual_stages=2, starts=("a", "b", "c")),
        cut(virtual_stages=2, starts=("a",)),
        "1 starts for 4 stages (2 partitions x 2)",
    ),
    "least stage": (cut(stages={"a": 1}), cut(stages={"a": 1, "b": -1}), "to stage -1"),
    "most stage": (cut(stages={"a": 1}), cut(stages={"a": 1, "b": 2}), "to stage 2, of 2 stages"),
    "stages that have something": (
        cut(stages={"a": 0}, default_stage=1),
        cut(stages={"a": 0}),
        "1 of 2 stages without a module: stage 1 is the first",
    ),
    "stages, of very many": (
        cut(stages={"a": 1}),
        cut(partitions=10**12, microbatches=10**12, stages={"a": 1}),
        "999999999998 of 1000000000000 stages without a module: stage 2 is the first",
    ),
    "hosts, very many": (
        cut(hosts=10**12),
        cut(hosts=10**12, partitions=3),
        "partitions is 3, which does not divide the ranks: 1000000000000 ",
    ),
    "most default_stage": of("default_stage", 1, 2, "default_stage is 2", cut),
    "starts or stages": (
        cut(stages={"a": 1}),
        cut(stages={"a": 1}, starts=("a",)),
        "starts and stages are both given",
    ),
    "starts or a file": (
        cut(partition_file="cuts.json"),
        cut(partition_file="cuts.json", starts=("a",)),
        "starts is given beside partition_file",
    ),
    "stages or a file": (
        cut(partition_file="cuts.json"),
        cut(partition_file="cuts.json", stages={"a": 1}),
        "stages is given beside partition_file",
    ),
    "default_stage or a file": (
        cut(partition_file="cuts.json", default_stage=0),
        cut(partition_file="cuts.json", default_stage=1),
        "default_stage is given beside partition_file",
    ),
    "a file or what is found": (
        cut(partition_file="cuts.json"),
        cut(partition_file="cuts.json", auto_partition=True),
        "auto_partition is given beside partition_file",
    ),
    "a file's name": of("partition_file", "a", "", "partition_file is empty", cut),
    "counts beside a file": of(
        "microbatches", 1, 0, "microbatches is 0", cut, partition_file="cuts.json"
    ),
    "starts or what is found": (
        cut(auto_partition=True),
        cut(auto_partition=True, starts=("a",)),
        "starts is given beside auto_partition",
    ),
    "ranks of what is found": (
        cut(auto_partition=True),
        cut(auto_partition=True, partitions=3),
        "partitions is 3, which does not divide the ranks: 2",
    ),
    "objective": of(
        "optimize", "memory", "space", '"space" is not a known optimize', cut, auto_partition=True
    ),
    "memory_cap": of("memory_cap", 1, 0, "memory_cap is 0", cut, auto_partition=True),
    "an objective of nothing": (
        cut(auto_partition=True, optimize="speed"),
        cut(optimize="speed"),
        "optimize is given, and auto_partition is not",
    ),
    "a cap of nothing": (
        cut(auto_partition=True, memory_cap=1),
        cut(memory_cap=1),
        "memory_cap is given, and auto_partition is not",
    ),
    "cuts of a task, found": (
        task(instance_count=2, distribution=ModelParallel(auto_partition=True)),
        task(instance_count=2, distribution=ModelParallel(auto_partition=False)),
        "nothing specifies where the task's model is cut into 2 stages",
    ),
    "cuts of a task": (
        task(instance_count=2, distribution=ModelParallel(starts=("a",))),
        task(instance_count=2, distribution=ModelParallel()),
        "nothing specifies where the task's model is cut into 2 stages",
    ),
    "a task of one stage": (
        task(distribution=ModelParallel(partitions=1)),
        task(distribution=ModelParallel(partitions=1, virtual_stages=2)),
        "nothing specifies where the task's model is cut into 2 stages (1 partitions x 2)",
    ),
    "a task or a script": (task(), task(entry_point="a.py"), "is given beside entry_point"),
    "a task's distribution": (
        task(),
        task(distribution=Mpi()),
        'the trainer of task "m:f" runs under torchrun, and distribution is mpi',
    ),
    "a task's name": (task(), task(task="m"), '"m" does not name a function of a module'),
    "a task beside a command": (
        task(),
        task(container_arguments=("x",)),
        "container_arguments is given beside task",
    ),
    "least port": (server(Ready(port=1)), server(Ready(port=0)), "port is 0"),
    "most port": (server(Ready(port=65535)), server(Ready(port=65536)), "port is 65536"),
    "file of readiness": of("file", "x", " ", "file is empty", ready),
    "seconds of readiness": of("seconds", 0, -1, "seconds is -1", ready),
    "seconds and timeout of readiness": of(
        "seconds", 4, 5, "ready after 5 seconds, but given up after 5", ready, timeout=5
    ),
    "timeout of readiness": of("timeout", 1, 0, "timeout is 0", ready, port=1),
    "one sign of readiness": (
        server(Ready(port=1)),
        server(Ready(port=1, file="x")),
        "port and file given as the sign",
    ),
    "a command's role": of(
        "role", "command", "data", 'group "server" has a command, and role "data"', server
    ),
    "a command's lifetime": (
        server(lifetime="own"),
        server(lifetime="own", command=(), role="train"),
        'group "server" has lifetime, but no command',
    ),
    "a command's first word": of("command", ("x",), ("", "x"), "starts with an empty word", server),
    "spot instances that lose all": (
        spot(checkpoint_s3_uri=None, allow_restart_from_scratch=True),
        spot(checkpoint_s3_uri=None),
        "an interruption loses all work",
    ),
    "most keep-alive": of(
        "keep_alive_period_in_seconds", 21600, 21601, "keep_alive_period_in_seconds is 21601"
    ),
    "volume key": (
        {"volume_kms_key": "alias/mine", "instance_type": "ml.c5.xlarge"},
        {"volume_kms_key": "alias/mine", "instance_type": "ml.g5.xlarge"},
        "ml.g5.xlarge has disks of its own",
    ),
    "volume key of an alternative": (
        {**alternatives("ml.m5.large"), "volume_kms_key": "alias/mine"},
        {**alternatives("ml.m5.large", "ml.g5.xlarge"), "volume_kms_key": "alias/mine"},
        "ml.g5.xlarge has disks of its own",
    ),
    "output key": of(
        "output_kms_key", "x" * 2048, "x" * 2049, "output_kms_key has 2049 characters"
    ),
    "training plan": of(
        "training_plan", PLAN + "mine", PLAN.replace("1", "x"), "has the wrong form"
    ),
    "most retries": of("max_retry_attempts", 30, 31, "max_retry_attempts is 31"),
    "attempts": of("attempts", 1, 0, "attempts is 0", retry, on=("out_of_capacity",)),
    "wait before an attempt": of("backoff", 0, -1, "backoff is -1", retry, on=("out_of_capacity",)),
    "causes of restarts": of("on", ("out_of_capacity",), (), "retry names no cause", retry),
    "exit codes of restarts": (
        {"retry": Retry(on=({"exit": [255]},)), "allow_restart_from_scratch": True},
        {"retry": Retry(on=({"exit": [256]},)), "allow_restart_from_scratch": True},
        "the exit codes of a restart are not a list",
    ),
    "restarts without checkpoints": (
        {"retry": Retry(), "checkpoint_s3_uri": "s3://my-bucket/checkpoints"},
        {"retry": Retry()},
        "retry without checkpoints",
    ),
    "alternatives once": (
        alternatives("ml.m5.large", "ml.m5.xlarge"),
        alternatives("ml.m5.large", "ml.m5.large"),
        '"ml.m5.large" is listed before',
    ),
    "alternatives that are others": (
        alternatives("ml.m5.large"),
        alternatives("ml.c5.xlarge"),
        '"ml.c5.xlarge" is listed before',
    ),
    "alternatives in the cloud": (
        alternatives("ml.m5.large"),
        alternatives("local"),
        '"local" cannot be an alternative of "ml.c5.xlarge"',
    ),
    "an own command": (
        no_script(image_uri="image:1", container_entry_point=("sh", "x" * 256)),
        no_script(image_uri="image:1", container_entry_point=("sh", "x" * 257)),
        "container_entry_point[1] has 257 characters",
    ),
    "words of a command": (
        no_script(image_uri="image:1", container_arguments=("x",) * 100),
        no_script(image_uri="image:1", container_arguments=("x",) * 101),
        "container_arguments has 101 entries",
    ),
    "a command beside a script": (
        no_script(image_uri="image:1", container_arguments=("x",)),
        {"container_arguments": ("x",)},
        "container_arguments is given beside entry_point",
    ),
    "no script, but an image": (no_script(image_uri="i"), no_script(), '"entry_point" is missing'),
    "no script, but an algorithm": (
        no_script(algorithm_arn="mine"),
        no_script(algorithm_arn="mine", distribution=DataParallel()),
        '"entry_point" is missing',
    ),
    "an algorithm and no image": (
        no_script(algorithm_arn="mine"),
        no_script(algorithm_arn="mine", image_uri="image:1"),
        "algorithm_arn is given beside image_uri",
    ),
    "name of an algorithm": of(
        "algorithm_arn", "a" * 63, "a" * 64, "has the wrong form", no_script
    ),
    "framework": (
        {"framework": "tensorflow", "framework_version": "2.12"},
        {"framework": "keras", "framework_version": "2.12"},
        '"keras" is not a known framework',
    ),
    "framework_version": of(
        "framework_version", "2.2", "2", '"2" cannot be a framework_version', framework="pytorch"
    ),
    "framework_version beside an image": (
        {"framework": "pytorch", "framework_version": "2.2", "image_uri": "image:1"},
        {"framework_version": "2.2", "image_uri": "image:1"},
        "framework_version is given, but no framework",
    ),
    "py_version": of(
        "py_version", "py310", "310", '"310" cannot be a py_version', framework="pytorch"
    ),
    "registry": (registry(), registry("vpc"), "is not a known training_repository_access_mode"),
    "registry in a VPC": (
        registry(),
        {**registry(), **network(0, 0)},
        "a registry in a VPC, but the job is in none",
    ),
    "credentials of a registry": (
        registry(provider=LOGIN),
        registry(mode=None, provider=LOGIN),
        "credentials for a registry that is not in a VPC",
    ),
    "function of a registry": of(
        "provider", LOGIN, "login", "'login' has the wrong form", registry
    ),
    "experiment": (
        {"experiment_config": {"RunName": "a" * 120}},
        {"experiment_config": {"RunName": "a" * 121}},
        "RunName has 121 characters",
    ),
    "part of an experiment": of(
        "experiment_config", {"TrialName": "a"}, {"Trial": "a"}, "there is no field Trial here"
    ),
    "output of TensorBoard": (
        {"tensorboard_output_config": {"S3OutputPath": S3}},
        {"tensorboard_output_config": {"LocalPath": "/opt/ml/output/tensorboard"}},
        "S3OutputPath is missing",
    ),
    "output of the debugger": of(
        "debugger_hook_config", {}, {"S3OutputPath": "x"}, '"x" is not the URI of data'
    ),
    "image of a rule": (
        {"rules": [{"RuleConfigurationName": "a", "RuleEvaluatorImage": "image:1"}]},
        {"rules": [{"RuleEvaluatorImage": "DEFAULT_RULE_EVALUATOR_IMAGE"}]},
        "the image of the rule depends on the region",
    ),
    "profiler": (
        {"disable_profiler": True},
        {"disable_profiler": True, "profiler_rules": [{"RuleEvaluatorImage": "image:1"}]},
        "disable_profiler is given beside profiler_rules",
    ),
    "channels beside a model": (
        {"model_uri": S3, "inputs": many(18, TrainingInput(S3))},
        {"model_uri": S3, "inputs": many(19, TrainingInput(S3))},
        "19 channels",
    ),
    "channel of a model": (
        {"model_uri": S3, "model_channel_name": "b", **channel()},
        {"model_uri": S3, "model_channel_name": "a", **channel()},
        'the channel "a" is given twice',
    ),
    "name of a model's channel": of(
        "model_channel_name", "a-b", "a b", "'a b' has the wrong form", model_uri=S3
    ),
    "place of a model": of(
        "model_uri", S3 + "model.tar.gz", "model.tar.gz", '"model.tar.gz" is not the URI of data'
    ),
    "file system": (mounted(), mounted(vpc=False), "a file system is in a VPC"),
    "file system and routes": (
        mounted(),
        mounted(route=("a", "b")),
        'the channel "a" names no instance groups, and "b" does',
    ),
    "id of a file system, long": (
        mounted(file_system_id="fs-" + "0" * 18),
        mounted(file_system_id="fs-" + "0" * 19),
        "file_system_id has 22 characters",
    ),
    "kind of a file system": of(
        "file_system_type", "EFS", "efs", "'efs' is not a known file_system_type", mounted
    ),
    "mode of a file system": (
        mounted(file_system_access_mode="rw"),
        mounted(file_system_access_mode="wr"),
        "'wr' is not a known file_system_access_mode",
    ),
    "folder of a file system": (
        mounted(directory_path="/" + "x" * 4095),
        mounted(directory_path="/" + "x" * 4096),
        "directory_path has 4097 characters",
    ),
    "root of a file system": of(
        "directory_path", "/", "mount", '"mount" cannot be a folder of the file system', mounted
    ),
    "max_wait": (spot(), spot(max_wait=99), "max_wait (99) is less than max_run (100)"),
    "checkpoint folder": (kept("/opt/ml/saved"), kept("/opt/ml"), "cannot be the checkpoint"),
    "checkpoint folder, taken": folder(
        "/opt/ml/outputs", "/opt/ml/output/x", '"/opt/ml/output/x" cannot be the checkpoint folder'
    ),
    "checkpoint folder, above": folder(
        "/opt/ml/a..b", "/opt/ml/a/../../b", "cannot be the checkpoint folder"
    ),
    "checkpoint folder, long": (
        kept("/opt/ml/" + "x" * 4088),
        kept("/opt/ml/" + "x" * 4089),
        "checkpoint_local_path has 4097 characters",
    ),
    "checkpoint folder, printable": folder(
        "/opt/ml/a b", "/opt/ml/a\tb", "cannot be the checkpoint folder"
    ),
    "checkpoint folder, elsewhere": folder(
        "/opt/ml/x", "/opt/mlx/x", '"/opt/mlx/x" cannot be the checkpoint folder'
    ),
    "checkpoint folder that is kept": (
        kept("/opt/ml/x"),
        kept("/opt/ml/x", None),
        "but no checkpoint_s3_uri",
    ),
    "least local workers": of(
        "local_workers", 0, -1, "local_workers is -1", service, datasets=("m:f",)
    ),
    "most local workers": of("local_workers", 1024, 1025, "local_workers is 1025", data_group),
    "least port of metrics": of("metrics_port", 1, 0, "metrics_port is 0", data_group),
    "most port of metrics": of("metrics_port", 65535, 65536, "metrics_port is 65536", data_group),
    "port of metrics below our own": of(
        "metrics_port", 7769, 7770, "which Launcher itself listens on", data_group
    ),
    "port of metrics above our own": of(
        "metrics_port", 7779, 7778, "which Launcher itself listens on", data_group
    ),
    "start_timeout": (service(start_timeout=1), service(start_timeout=0), "start_timeout is 0"),
    "prefetch": of(
        "prefetch_bytes", 1048576, 1048575, "prefetch_bytes is 1048575, too little", service
    ),
    "instances": of("instance_count", 1, 0, "the job has 0 instances"),
    "groups": (
        groups("a", "b", "c", "d", "e"),
        groups("a", "b", "c", "d", "e", "f"),
        "instance_groups has 6 entries",
    ),
    "group's name, long": (
        groups("a" * 64),
        groups("a" * 65),
        "instance_group_name has 65 characters",
    ),
    "group's name, printable": (groups("a b"), groups("a\tb"), '"a\\tb" cannot be the name'),
    "hyperparameters": hyperparameters(
        many(100, 1), many(101, 1), "hyperparameters has 101 entries"
    ),
    "hyperparameter's name": hyperparameters({"a" * 256: 1}, {"a" * 257: 1}, "has 257 characters"),
    "hyperparameter's short name": hyperparameters(
        {"a": 1}, {"": 1}, '"" cannot be the name of a hyperparameter'
    ),
    "hyperparameter's printable name": hyperparameters(
        {"a b-c.é": 1}, {"a\n": 1}, '"a\\n" cannot be the name of a hyperparameter'
    ),
    "hyperparameter that is no variable": hyperparameters(
        {"a:b": 1}, {"a=b": 1}, '"a=b" cannot be the name of a hyperparameter'
    ),
    "hyperparameter of the toolkit": hyperparameters(
        {"my_sagemaker_x": 1}, {"sagemaker_x": 1}, "has a name that SageMaker's toolkit keeps"
    ),
    "hyperparameter of the tuner": (
        {"hyperparameters": {"tuning_objective_metric": 1}},
        {"hyperparameters": {"_tuning_objective_metric": 1}},
        "has a name that SageMaker's toolkit keeps",
    ),
    "hyperparameter's length": hyperparameters(
        {"a": "x" * 2498}, {"a": "x" * 2499}, "hyperparameters 'a' has 2501 characters"
    ),
    "hyperparameter's text": (
        {"hyperparameters": {"a": "x\n\u0001\ud7ff\ue000"}},
        {"hyperparameters": {"a": "x\0"}},
        'the hyperparameter "a" holds a character that no variable can hold',
    ),
    "text in a list": hyperparameters(
        {"a": [["x"]]}, {"a": ["x", ["\ud800"]]}, "no variable can hold"
    ),
    "text in a mapping": hyperparameters(
        {"a": {"b": "x"}}, {"a": {"b": "\udfff"}}, "no variable can hold"
    ),
    "key of a mapping": hyperparameters({"a": {"b": 1}}, {"a": {"b\0": 1}}, "no variable can hold"),
    "variables": environment(many(100, ""), many(101, ""), "101 environment"),
    "variables beside a token": (
        {**data_group(), "environment": many(99, "")},
        {**data_group(), "environment": many(100, "")},
        "100 environment",
    ),
    "variables beside a secret": environment(
        many(99, ""), many(100, ""), "100 environment", secrets={"KEY": "env"}
    ),
    "variables of a program": (
        no_script(image_uri="image:1", environment={**many(99, ""), "RANK": "0"}),
        no_script(image_uri="image:1", environment=many(101, "")),
        "101 environment",
    ),
    "variables of hosts": (
        {"environment": {"MODEL_DIR": "/tmp", "SM_OF_MINE": "1", "HOSTS": "a"}},
        {"environment": {"SM_MODEL_DIR": "/tmp"}},
        "SM_MODEL_DIR is set by Launcher itself",
    ),
    "variables of ranks": (
        {**script_groups(), "environment": {"WORLD_SIZE": "2"}},
        {"environment": {"WORLD_SIZE": "2"}},
        "WORLD_SIZE is set by Launcher itself",
    ),
    "variables of a strategy": (
        {"environment": {"TF_CONFIG": "{}", "JAX_NUM_PROCESSES": "1"}},
        {"distribution": Jax(), "environment": {"JAX_NUM_PROCESSES": "1"}},
        "JAX_NUM_PROCESSES is set by Launcher itself",
    ),
    "secret of hosts": of(
        "secrets", {"MY_ADDR": "env"}, {"MASTER_ADDR": "env"}, "so the secret would be lost"
    ),
    "variable's name": environment({"_" * 512: ""}, {"_" * 513: ""}, "has 513 characters"),
    "variable's text": environment(
        {"A": "x" * 512}, {"A": "x" * 513}, "environment 'A' has 513 characters"
    ),
    "variable's content": environment(
        {"A": "\n"}, {"A": "\0"}, "the environment variable A holds a character"
    ),
    "variable of ours": environment(
        {"LAUNCHER_TOKENS": ""}, {"LAUNCHER_TOKEN": ""}, "LAUNCHER_TOKEN is set by Launcher itself"
    ),
    "tags": ({"tags": many(50, "")}, {"tags": many(51, "")}, "tags has 51 entries"),
    "tag's key": of("tags", {"a" * 128: ""}, {"a" * 129: ""}, "Key has 129 characters"),
    "tag of AWS": ({"tags": {"awsome": ""}}, {"tags": {"AWS:x": ""}}, "a prefix that AWS keeps"),
    "tag's value": of("tags", {"a": "x" * 256}, {"a": "x" * 257}, "Value has 257 characters"),
    "metrics": (
        {"metric_definitions": [MetricDefinition("a", "(x)")] * 40},
        {"metric_definitions": [MetricDefinition("a", "(x)")] * 41},
        "metric_definitions has 41 entries",
    ),
    "metric's name": (metric("a" * 255), metric("a" * 256), "Name has 256 characters"),
    "metric's expression": of(
        "regex", "(x)" + "x" * 497, "(x)" + "x" * 498, "Regex has 501 characters", metric
    ),
    "metric's short expression": of(
        "regex", "()", "", 'the expression of metric "loss" has no group: ', metric
    ),
    "metric's group": (metric(regex="(a)(b)"), metric(regex="a"), "has no group: a"),
    "metric's syntax": (metric(regex="(a)"), metric(regex="(a"), "is not a regular expression"),
    "metric's repetitions": (
        metric(regex="([0-9]{1,100})"),
        metric(regex=f"([0-9]{{1,{2**64}}})"),
        "is not a regular expression: the repetition number is too large",
    ),
    "subnets": (network(16, 1), network(17, 1), "subnets has 17 entries"),
    "security groups": (network(1, 5), network(1, 6), "security_group_ids has 6 entries"),
    "a VPC has security groups": (network(1, 1), network(1, 0), "subnets without security_group"),
    "a VPC has subnets": (network(0, 0), network(0, 1), "security_group_ids without subnets"),
    "network's id": (
        network(1, 1, "a" * 31),
        network(1, 1, "a" * 32),
        "security_group_ids[0] has 33 characters",
    ),
    "image": of("image_uri", "x" * 255, "x" * 256, "image_uri has 256 characters"),
    "image's characters": of("image_uri", "a/b:c", "a b", '"a b" cannot be an image'),
    "role's name": ({"role": "a" * 64}, {"role": "a" * 65}, "is neither the name nor the ARN"),
    "role's ARN": (
        {"role": "arn:aws-cn:iam::111122223333:role/path/x"},
        {"role": "arn:aws:iam::11112222333:role/x"},
        "is neither the name nor the ARN",
    ),
    "script inside": (
        {"source_dir": "code", "entry_point": "a/../b/train.py"},
        {"source_dir": "code", "entry_point": "a/../../train.py"},
        "is outside source_dir",
    ),
    "script deep inside": of(
        "entry_point", "a/b/../../train.py", "/train.py", "is outside source_dir", source_dir="code"
    ),
    "script of its own": of("entry_point", "../train.py", "../train.txt", "is not a Python file"),
    "input mode": ({"input_mode": "Pipe"}, {"input_mode": "pipe"}, "is not a known input_mode"),
    "output": ({"output_path": S3}, {"output_path": "s3://b"}, '"s3://b" is not the URI of data'),
    "code": of("code_location", "file:///x", "file://", "is not the URI of data"),
    "channels of a program": of(
        "inputs", many(20, S3), many(21, S3), "21 channels", no_script, image_uri="image:1"
    ),
    "channel called code": (
        no_script(image_uri="image:1", inputs={"code": S3}),
        {"inputs": {"code": S3}},
        "is reserved for the code",
    ),
    "channels": of("inputs", many(19, S3), many(20, S3), "20 channels"),
    "channel's name": (
        {"inputs": {"aZ9._-" + "a" * 58: S3}},
        {"inputs": {"aZ9._-" + "a" * 59: S3}},
        "ChannelName has 65 characters",
    ),
    "channel of the code": of("inputs", {"Code": S3}, {"code": S3}, "is reserved for the code"),
    "URI's length": (
        channel(s3_data=S3 + "x" * (1024 - len(S3))),
        channel(s3_data=S3 + "x" * (1025 - len(S3))),
        "s3_data has 1025 characters",
    ),
    "bucket": of("s3_data", "s3://a.b", "s3://a_b", '"s3://a_b" is not the URI of data', channel),
    "distribution of a channel": (
        channel(distribution="ShardedByS3Key"),
        channel(distribution="Sharded"),
        "'Sharded' is not a known distribution",
    ),
    "compression": (channel(compression="None"), channel(compression="Zip"), "compression"),
    "record_wrapping": of("record_wrapping", "RecordIO", "Record", "record_wrapping", channel),
    "s3_data_type": of("s3_data_type", "ManifestFile", "Manifest", "s3_data_type", channel),
    "channel's input mode": of("input_mode", "FastFile", "Fast", "input_mode", channel),
    "attributes": (
        channel(s3_data_type="AugmentedManifestFile", attribute_names=("a",)),
        channel(s3_data_type="AugmentedManifestFile"),
        "an augmented manifest without attribute_names",
    ),
    "attributes of a manifest": (
        channel(),
        channel(attribute_names=("a",)),
        "attribute_names are given for S3Prefix",
    ),
    "target attribute": (
        channel(),
        channel(target_attribute_name="a"),
        "target_attribute_name is of AutoML jobs",
    ),
    "fast files": (
        channel(input_mode="File", s3_data_type="ManifestFile"),
        channel(input_mode="FastFile", s3_data_type="ManifestFile"),
        "input mode FastFile cannot read ManifestFile",
    ),
    "fast files of the job": (
        {"input_mode": "FastFile", **channel(input_mode="File", s3_data_type="ManifestFile")},
        {"input_mode": "FastFile", **channel(s3_data_type="ManifestFile")},
        "input mode FastFile cannot read ManifestFile",
    ),
    "routes": (
        {**groups("a", "b"), **channel(instance_groups=("a", "b"))},
        {**groups("a", "b"), **channel(instance_groups=("b", "c"))},
        'the channel goes to group "c", which is not in the job',
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_from_both_sides(name: str) -> None:
    allowed, refused, what = LIMITS[name]
    assert findings(ONE_HOST.replace(**allowed)) == []
    told = findings(ONE_HOST.replace(**refused))
    assert [is_warning for said, is_warning in told if what in said][:1] == [False], told


def test_spot_instances_are_kept_at_ones_own_risk() -> None:
    spec = ONE_HOST.replace(**spot(), keep_alive_period_in_seconds=600)
    assert findings(spec) == [("AWS is not documented to keep spot instances in a warm pool", True)]


@pytest.mark.parametrize(
    ("uri", "fix"),
    [
        ("data", 'write "file://data" for a folder of this machine'),
        ("S3://my-bucket/x", "a bucket has 3 to 63 of a-z"),
        ("https://x", "or file:///folder"),
        ("file://", "or file:///folder"),
    ],
)
def test_the_fix_of_a_uri(uri: str, fix: str) -> None:
    (finding,) = examine(ONE_HOST.replace(**channel(s3_data=uri)))
    assert fix in finding.fix
    assert finding.path == ("inputs", "a", "s3_data")


@pytest.mark.parametrize(
    ("instance_type", "fix"),
    [
        ("ml.g5.3xlarge", "did you mean"),
        ("ml.zz9.metal", "nothing, if SageMaker has it"),
        ("ml.p9-x900.48xlarge", "did you mean"),
    ],
)
def test_the_fix_for_a_type_that_is_too_new(instance_type: str, fix: str) -> None:
    (finding,) = examine(ONE_HOST.replace(instance_type=instance_type))
    assert finding.is_warning
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize(
    ("distribution", "counts", "readers", "warned"),
    [
        pytest.param("ShardedByS3Key", (1, 2), ("right",), True, id="two data hosts"),
        pytest.param("ShardedByS3Key", (1, 2), (), True, id="every host"),
        pytest.param("ShardedByS3Key", (2, 1), (), False, id="one data host"),
        pytest.param("ShardedByS3Key", (2, 2), ("left",), False, id="train hosts alone"),
        pytest.param("FullyReplicated", (2, 2), (), False, id="not sharded"),
    ],
)
def test_data_hosts_that_see_different_samples(
    distribution: str, counts: tuple[int, int], readers: tuple[str, ...], warned: bool
) -> None:
    # Names that say nothing: only the data service tells what the group without accelerators does.
    spec = ONE_HOST.replace(
        instance_type=None,
        instance_count=None,
        distribution=DataParallel(),
        data_service=DataService(datasets=("m:f",)),
        instance_groups=[
            InstanceGroup("left", "ml.p3.8xlarge", counts[0]),
            InstanceGroup("right", "ml.c5.xlarge", counts[1]),
        ],
        inputs={
            "a": TrainingInput(S3, distribution=distribution, instance_groups=readers),
            "b": TrainingInput(S3, instance_groups=("left", "right")),
        },
    )
    told = [finding for finding in examine(spec) if "gets only its share" in finding.what]
    assert [finding.is_warning for finding in told] == [True] * warned
    assert all(f"each of the {counts[1]} data hosts" in finding.what for finding in told)


@pytest.mark.parametrize(
    ("routes", "warned"),
    [
        pytest.param({"a": ("left",)}, True, id="elsewhere only"),
        pytest.param({"a": ("left",), "b": ("right",)}, False, id="one of two"),
        pytest.param({"a": ()}, False, id="everywhere"),
        pytest.param({}, False, id="no channels"),
    ],
)
def test_data_hosts_that_see_nothing(routes: Mapping[str, tuple[str, ...]], warned: bool) -> None:
    spec = ONE_HOST.replace(
        instance_type=None,
        instance_count=None,
        data_service=DataService(datasets=("m:f",)),
        instance_groups=[
            InstanceGroup("left", "ml.p3.8xlarge"),
            InstanceGroup("right", "ml.c5.xlarge"),
        ],
        inputs={name: TrainingInput(S3, instance_groups=groups) for name, groups in routes.items()},
    )
    told = [said for said in findings(spec) if "no channel goes to" in said[0]]
    said = [('no channel goes to group "right", which prepares the data', True)]
    assert told == said * warned

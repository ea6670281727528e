"""Generated jobs that every rule accepts, small enough to run on this machine.

To add a field of JobSpec: one line in `_FIELDS`, with a strategy of its legal values. A field that
depends on others goes into `job_specs`.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from launcher.client.spec import (
    DataParallel,
    DataService,
    InstanceGroup,
    Jax,
    JobSpec,
    MetricDefinition,
    ModelParallel,
    Mpi,
    MultiWorkerMirrored,
    Retry,
    Tracking,
    TrainingInput,
)
from launcher.shared import DEFAULT_ENGINE, SCHEDULES, Role, is_of_toolkit

#: What generated jobs travel with.
SCRIPT, DATASETS = "train.py", ("pipeline:train_set", "pipeline:test_set")
PARTITION_FILE = Path(__file__).parents[1] / "spec" / "bad" / "partition.json"
CLOUD_TYPES = ("ml.c5.xlarge", "ml.g4dn.xlarge", "ml.p3.8xlarge", "ml.m5.large")

_letters = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
_characters = st.characters(codec="utf-8", categories=["L", "N", "P", "S"])
_printable = st.text(st.sampled_from("aZ9 .:-_'\"$é") | _characters, min_size=1, max_size=12)
#: With what YAML, JSON, shells and variables are known to trip over; no host can take a null.
_texts = st.text(
    st.sampled_from("ab=1 '\"\\\n\t$%{}[]\x7f\x85\u2028")
    | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=12,
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(_texts, part, max_size=3),
    max_leaves=5,
)
_hyperparameters = st.dictionaries(
    _printable.filter(lambda name: "=" not in name and not is_of_toolkit(name)),
    _json,
    max_size=4,
)
_metrics = st.builds(
    MetricDefinition,
    _letters,
    st.sampled_from(["loss=([0-9.]+)", "(a|b)", "acc: (\\d+)%"]),
)

_flags = st.none() | st.booleans()
_keys = st.none() | _letters.map("alias/{}".format)
_outputs = st.just({"S3OutputPath": "s3://bucket/x"})
_checks = st.builds(
    lambda name: {"RuleConfigurationName": name, "RuleEvaluatorImage": "i"}, _letters
)
_checks_of_a_job = st.lists(_checks, max_size=2).map(tuple)

#: Fields that depend on no other, with their legal values. algorithm_arn, container_entry_point and
#: container_arguments are of jobs without a script, which do not run here.
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "hyperparameters": _hyperparameters,
    "environment": st.dictionaries(_letters.map("USER_{}".format), _texts, max_size=3),
    "tags": st.dictionaries(
        st.text("aé9 ._:/=+-@", min_size=1, max_size=9),
        st.text("aé9 ._:/=+-@", max_size=9),
        max_size=50,
    ),
    "metric_definitions": st.lists(_metrics, max_size=3).map(tuple),
    # compares its two arguments, which harms nobody
    "tracking": st.none() | st.just(Tracking(callback="operator:eq")),
    "volume_size": st.integers(1, 16384),
    "max_run": st.integers(120, 28 * 24 * 3600),
    "input_mode": st.sampled_from(["File", "FastFile"]),
    "base_job_name": st.none() | _printable,
    "image_uri": st.none() | _letters.map("registry/{}:1".format),
    "role": st.none() | _letters | _letters.map("arn:aws:iam::111122223333:role/{}".format),
    "encrypt_inter_container_traffic": st.booleans(),
    "enable_network_isolation": st.booleans(),
    "enable_session_tag_chaining": _flags,
    "training_plan": st.none()
    | _letters.map("arn:aws:sagemaker:us-east-1:111122223333:training-plan/{}".format),
    "instance_placement_config": st.none() | st.just({"EnableMultipleJobs": True}),
    "retry": st.none()
    | st.builds(
        Retry,
        attempts=st.integers(1, 9),
        on=st.sampled_from([["out_of_capacity"], ["spot", {"exit": [75]}]]),
        backoff=st.integers(0, 600),
    ),
    "max_retry_attempts": st.none() | st.integers(1, 30),
    "output_kms_key": _keys,
    "disable_output_compression": st.booleans(),
    "container_log_level": st.sampled_from([10, 20, 30]),
    "enable_sagemaker_metrics": _flags,
    "experiment_config": st.none() | st.fixed_dictionaries({"ExperimentName": _letters}),
    "tensorboard_output_config": st.none() | _outputs,
    "debugger_hook_config": st.none() | st.just({}) | _outputs,
    "rules": _checks_of_a_job,
    "profiler_config": st.none() | _outputs,
    "profiler_rules": _checks_of_a_job,
    "enable_remote_debug": _flags,
    "enable_infra_check": _flags,
    "extra_request": st.sampled_from(
        [{}, {"StoppingCondition": {"MaxPendingTimeInSeconds": 7200}}]
    ),
}


@st.composite
def job_specs(draw: st.DrawFn, source: Path, data: Path, most_hosts: int = 3) -> JobSpec:
    """A legal job whose code is in `source`, and whose channels read `data`; few hosts."""
    machines = draw(_machines(most_hosts))
    groups = [group.instance_group_name for group in machines.get("instance_groups", ())]
    has_data_group = any(g.role is Role.DATA for g in machines.get("instance_groups", ()))
    channels = st.dictionaries(
        _letters.filter(lambda name: name != "code"), _inputs(data, groups), max_size=3
    )
    vpc = draw(st.sampled_from(_VPCS))
    model = st.just(f"file://{data}")
    fields = {name: draw(strategy) for name, strategy in _FIELDS.items()}
    on_demand = "keep_alive_period_in_seconds" in machines
    if "instance_preferences" in machines:
        fields["instance_placement_config"], on_demand = None, True
    return JobSpec(
        entry_point=SCRIPT,
        source_dir=str(source),
        data_service=draw(_data_services(needed=has_data_group)),
        inputs=draw(channels),
        dependencies=draw(st.sampled_from([(), (str(data),)])),
        model_uri=draw(st.none() | model),
        model_channel_name="a.model",  # no other channel has a dot
        **machines,
        **vpc,
        **fields,
        **draw(_versions()),
        **draw(_checkpoints(fields["max_run"], on_demand=on_demand)),
    )


_IN_VPC = {"subnets": ("subnet-1",), "security_group_ids": ("sg-1", "sg-2")}
_REGISTRY = {
    "training_repository_access_mode": "Vpc",
    "training_repository_credentials_provider_arn": "arn:aws:lambda:us-east-1:111122223333:"
    "function:login",
}
_VPCS: tuple[dict[str, Any], ...] = ({}, _IN_VPC, {**_IN_VPC, **_REGISTRY})


@st.composite
def _versions(draw: st.DrawFn) -> dict[str, Any]:
    framework = draw(st.sampled_from([None, "pytorch", "tensorflow"]))
    if framework is None:
        return {}
    version = draw(st.sampled_from([None, "2.2", "2.2.0"]))
    return {
        "framework": framework,
        "framework_version": version,
        "transformers_version": version and draw(st.sampled_from([None, "4.56", "4.56.2"])),
        "py_version": draw(st.sampled_from([None, "py310"])),
    }


@st.composite
def _checkpoints(draw: st.DrawFn, max_run: int, *, on_demand: bool) -> dict[str, Any]:
    """Checkpoints, and spot instances: not in a warm pool, nor of preferred types."""
    is_spot = draw(st.booleans()) and not on_demand
    kept = {
        "checkpoint_s3_uri": draw(_letters.map("s3://bucket/{}".format)),
        "checkpoint_local_path": draw(st.sampled_from([None, "/opt/ml/saved/here"])),
    }
    return {
        **draw(st.sampled_from([kept, {"allow_restart_from_scratch": is_spot}])),
        "use_spot_instances": is_spot,
        "max_wait": draw(st.integers(max_run, max_run + 1000)) if is_spot else None,
    }


_both: dict[str, st.SearchStrategy[Any]] = {
    "hang_timeout": st.sampled_from([0, 60, 1800]),
    "accumulation": st.integers(1, 4),
    "precision": st.sampled_from([None, "bf16", "fp16"]),
    "recomputed": st.sampled_from([(), ("blocks.0",), ("a", "b")]),
}
_data_parallel = st.builds(
    DataParallel,
    processes_per_host=st.none() | st.just(1),
    compression=st.sampled_from([None, "fp16", "bf16", "int8", "power_sgd"]),
    **_both,
) | st.builds(DataParallel, sharded=st.booleans(), **_both)
_mpi = st.builds(
    Mpi,
    processes_per_host=st.none() | st.just(1),
    custom_options=st.sampled_from([(), ("-x", "A=b c"), ("--mca", "btl_tcp_links", "4")]),
)


@st.composite
def _model_parallel(draw: st.DrawFn) -> ModelParallel:
    """A model that is cut, for as many ranks as any number of hosts has."""
    partitions = draw(st.integers(1, 3))
    schedule, virtual = draw(
        st.sampled_from([("simple", 1), *((s, v) for s in SCHEDULES[1:] for v in (1, 2))])
    )
    names = [f"blocks.{number}" for number in range(1, partitions * virtual)]
    pins = {name: number for number, name in enumerate(names)}
    cuts: list[dict[str, Any]] = [{"starts": tuple(names)}]
    if pins:
        cuts.append({"stages": pins, "default_stage": len(pins)})
    return ModelParallel(
        partitions=partitions,
        microbatches=partitions * draw(st.integers(1, 3)),
        schedule=schedule,
        virtual_stages=virtual,
        placement=draw(st.sampled_from(["cluster", "spread"])),
        processes_per_host=partitions * draw(st.integers(1, 2)),
        **draw(st.sampled_from(cuts)),
        **{name: draw(strategy) for name, strategy in _both.items()},
    )


#: Cuts by measure; the file is that of a model for two ranks.
_found = st.builds(
    ModelParallel,
    auto_partition=st.just(True),
    optimize=st.sampled_from([None, "speed", "memory"]),
    memory_cap=st.none() | st.integers(1, 2**40),
    processes_per_host=st.just(2),
    **_both,
)
_filed = st.builds(
    ModelParallel,
    partition_file=st.just(str(PARTITION_FILE)),
    microbatches=st.sampled_from([None, 2]),
    placement=st.sampled_from(["cluster", "spread"]),
    processes_per_host=st.sampled_from([2, 4]),
    accumulation=st.integers(1, 4),
)

#: Fields of a job, together: what starts its processes, and what they run.
_plain = st.sampled_from([None, MultiWorkerMirrored(), Jax()])
trainings = (_plain | _mpi).map(lambda chosen: {"distribution": chosen}) | st.builds(
    lambda chosen, program: {"distribution": chosen, **program},
    _data_parallel | _model_parallel() | _found | _filed,
    st.sampled_from([{}, {"entry_point": "", "task": DATASETS[0]}]),
)


#: What only hosts of one kind may have; the key needs hosts without disks of their own.
_reservations = st.sampled_from([{}, {"keep_alive_period_in_seconds": 600}]) | st.builds(
    lambda key: {"instance_type": "ml.m5.large", "volume_kms_key": key}, _keys
)


@st.composite
def _machines(draw: st.DrawFn, most_hosts: int) -> dict[str, Any]:
    """One kind of host, or a train group with data groups around it."""
    types = draw(st.sampled_from([("local", "local_gpu"), CLOUD_TYPES]))
    kind = st.sampled_from(types)
    if draw(st.booleans()):
        count = draw(st.none() | st.integers(1, most_hosts))
        if types is CLOUD_TYPES and draw(st.booleans()):
            preferred = draw(st.permutations(types))[:5]
            counted = {"InstanceCount": count} if count else {}
            kinds = ({"InstanceType": each, **counted} for each in preferred)
            return {"instance_preferences": tuple(kinds)}
        return {"instance_type": draw(kind), "instance_count": count, **draw(_reservations)}
    names = draw(st.lists(_printable, min_size=1, max_size=most_hosts, unique=True))
    spare = most_hosts - len(names)
    groups = []
    for index, name in enumerate(names):
        more = draw(st.integers(0, spare))
        spare -= more
        role = Role.DATA if index else Role.TRAIN
        first, *others = draw(st.permutations(types))
        alternatives = tuple(others[:2]) if types is CLOUD_TYPES else ()
        group = InstanceGroup(name, first, 1 + more, role, alternatives=alternatives)
        groups.append(group)
    return {"instance_groups": tuple(draw(st.permutations(groups)))}


@st.composite
def _inputs(draw: st.DrawFn, data: Path, groups: list[str]) -> TrainingInput:
    routed = st.lists(st.sampled_from(groups), unique=True) if groups else st.just([])
    return TrainingInput(
        f"file://{data}",
        distribution=draw(st.sampled_from(["FullyReplicated", "ShardedByS3Key"])),
        content_type=draw(st.none() | st.just("image/png")),
        input_mode=draw(st.none() | st.sampled_from(["File", "FastFile"])),
        instance_groups=tuple(draw(routed)),
        shuffle_config=draw(st.none() | st.integers(0, 9)),
    )


@st.composite
def _data_services(draw: st.DrawFn, *, needed: bool) -> DataService | None:
    if not needed and draw(st.booleans()):
        return None
    local_workers = draw(st.integers(0, 2))
    least = int(needed or local_workers > 0)  # who prepares data has a dataset to read
    datasets = st.lists(st.sampled_from(DATASETS), min_size=least, unique=True)
    return DataService(
        datasets=tuple(draw(datasets)),
        workers_per_host=draw(st.none() | st.integers(1, 2)),
        prefetch_bytes=draw(st.integers(2**20, 2**30)),
        local_workers=local_workers,
        checksums=draw(st.booleans()),
        metrics_port=draw(st.none() | st.integers(20000, 65535)),
        engine=DEFAULT_ENGINE,  # the only one that is installed here
        start_timeout=draw(st.integers(60, 3600)),
    )

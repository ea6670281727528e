"""Settings of a job or a script, with our names or those of smp, as a ParallelPart. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.errors import ParallelError
from launcher.shared import (
    OBJECTIVES,
    PLACEMENTS,
    PRECISIONS,
    SCHEDULES,
    ParallelPart,
    did_you_mean,
)

#: Names of smp's `parameters`, with the fields of ParallelPart.
_FIELD_NAMES = {
    "partitions": "partitions",
    "pipeline_parallel_degree": "partitions",
    "microbatches": "microbatches",
    "pipeline": "schedule",
    "placement_strategy": "placement",
    "default_partition": "default_stage",
    "auto_partition": "auto_partition",
    "optimize": "optimize",
    "partition_file": "partition_file",
}
#: smp's notation for the order of ranks, without tensor parallelism; the last varies fastest.
_ORDERS = {"DP": "cluster", "PD": "spread"}
#: Ignored: these control smp's search for a partition, its tracing or its processes, and do not
#: affect results.
_IGNORED = (
    "memory_weight",
    "contiguous",
    "deterministic_server",
    "ddp",
    "ddp_port",
    "ddp_dist_backend",
    "delayed_parameter_initialization",
    "static_mode",
    "fast_mode",
    "skip_tracing",
    "_match_weights",
    # Their effect is on tensor parallelism, sharding or offloading, which are refused.
    "prescaled_batch",
    "activation_loading_horizon",
    "sdp_reduce_bucket_size",
    "sdp_param_persistence_threshold",
    "sdp_max_live_parameters",
    "sdp_hierarchical_allgather",
    "sdp_gradient_clipping",
)
#: A limit that the schedules keep by themselves, or exceed.
_ACTIVE = "active_microbatches"
#: Unsupported parameters, each with the value that turns it off and what to do instead.
_UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "tensor_parallel_degree": (1, "cut the model into more partitions"),
    "sharded_data_parallel_degree": (
        1,
        "use a DataParallel job that shards its parameters, or write the script for "
        "launcher.parallel, with shard_degree",
    ),
    "shard_optimizer_state": (False, "use more partitions"),
    "offload_activations": (False, "use more microbatches, which are smaller"),
    "horovod": (False, "leave it out: replicas exchange their gradients without it"),
    "fp16_params": (False, "set fp16, which keeps the parameters in 32 bits for the optimizer"),
    "load_partition": (False, "leave it out: a partition_file is loaded"),
}
#: What to do instead of fields of ParallelPart that smp has no name for.
_NOT_FOR_SCRIPTS = {
    "accumulation": "use smp.DistributedModel(..., backward_passes_per_step=%s)",
    "sharded": "write the script for launcher.parallel",
    "shard_degree": "write the script for launcher.parallel",
    "compression": "write the script for launcher.parallel",
}


def configure(
    part: ParallelPart, config: Mapping[str, Any] | None, named: Mapping[str, Any]
) -> ParallelPart:
    """Return the job's settings, overridden by the script's.

    config: smp's own `parameters`. named: fields of ParallelPart. Raises ParallelError that lists
    everything unsupported.
    """
    ours = {field.name for field in dataclasses.fields(ParallelPart)}
    problems = [
        *_unknown(config or {}, {*_FIELD_NAMES, *_UNSUPPORTED, *_IGNORED, *PRECISIONS, _ACTIVE}),
        *_unknown(named, ours),
        *_missing(config or {}),
    ]
    if problems:
        raise ParallelError("smp.init: " + "; ".join(problems))
    translated = {
        _FIELD_NAMES[name]: value for name, value in (config or {}).items() if name in _FIELD_NAMES
    }
    for name in PRECISIONS:
        if (config or {}).get(name):
            translated["precision"] = name
    if part.partition_file and "starts" in named:  # they override those of the file
        part = dataclasses.replace(part, partition_file="")
    found = dataclasses.replace(part, **{**translated, **named})
    if "auto_partition" not in {**translated, **named}:  # defaults to True, as in smp
        is_cut = found.starts or found.stages or found.partition_file
        found = dataclasses.replace(found, auto_partition=not is_cut)
    found = dataclasses.replace(found, placement=_placement(found.placement))
    if problems := [*_problems(found), *_active_problems(found, config or {})]:
        raise ParallelError("smp.init: " + "; ".join(problems))
    return found


def _unknown(given: Mapping[str, object], known: set[str]) -> Iterator[str]:
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            fix = f"did you mean {near!r}?" if near else f"use one of {', '.join(sorted(known))}"
            yield f"there is no {name!r}: {fix}"


def _missing(config: Mapping[str, object]) -> Iterator[str]:
    if all(config.get(name) for name in PRECISIONS):
        yield f"{' and '.join(PRECISIONS)} are both set: set one of them"
    for name, value in config.items():
        if name in _UNSUPPORTED and value is not None and value != _UNSUPPORTED[name][0]:
            yield f"{name}={value!r} is not supported: {_UNSUPPORTED[name][1]}"


def _placement(name: str) -> str:
    if sorted(name) == sorted("DPT"):
        return _ORDERS[name.replace("T", "")]
    return name


def _active_problems(part: ParallelPart, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problem of a limit on the microbatches in a stage that the schedule exceeds."""
    limit = config.get(_ACTIVE)
    most = part.partitions if part.schedule == "interleaved" else part.microbatches
    most = min(most, part.microbatches)
    if limit is not None and limit < most:
        yield (
            f"{_ACTIVE} is {limit}, but with {part.schedule!r} the first stage holds "
            f"{most} at once: use {most} or leave it out, or use more and smaller microbatches"
        )


def _problems(part: ParallelPart) -> Iterator[str]:
    default = ParallelPart()
    for name, fix in _NOT_FOR_SCRIPTS.items():
        value = getattr(part, name)
        if value != getattr(default, name):
            fix = fix % value if "%s" in fix else fix
            yield f"{name}={value!r} is not supported in scripts for smp: {fix}"
    if part.schedule not in SCHEDULES:
        known = " or ".join(map(repr, SCHEDULES))
        yield f"pipeline is {part.schedule!r}: use {known}"
    if part.placement not in PLACEMENTS:
        known = " or ".join(map(repr, PLACEMENTS))
        yield f"placement_strategy is {part.placement!r}: use {known}"
    if part.optimize not in OBJECTIVES:
        known = " or ".join(map(repr, OBJECTIVES))
        yield f"optimize is {part.optimize!r}: use {known}"
    last = part.partitions * part.virtual_stages - 1
    stages = {f"stages[{name!r}]": stage for name, stage in part.stages.items()}
    for name, stage in {**stages, "default_partition": part.default_stage}.items():
        if not 0 <= stage <= last:
            yield f"{name} is {stage}, but the partitions are numbered 0 to {last}"

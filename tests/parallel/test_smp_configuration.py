"""What smp.init understands of a job's words, of smp's, and of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from launcher.errors import ParallelError
from launcher.parallel.smp.configuration import configure
from launcher.shared import ParallelPart

JOB = ParallelPart(partitions=2, microbatches=4, starts=("head",))


def test_a_scripts_arguments_precede_those_of_its_job() -> None:
    theirs = {
        "pipeline_parallel_degree": 4,
        "microbatches": 8,
        "pipeline": "simple",
        "placement_strategy": "TPD",
        "default_partition": 3,
        "auto_partition": False,
        "tensor_parallel_degree": 1,
        "active_microbatches": 16,
        "memory_weight": 0.2,
        "ddp": True,
        "bf16": True,
        "fp16": False,
        "prescaled_batch": True,
        "skip_tracing": True,
        "static_mode": True,
        "activation_loading_horizon": 4,
    }
    assert configure(JOB, theirs, {"microbatches": 16}) == ParallelPart(
        partitions=4,
        microbatches=16,
        schedule="simple",
        placement="spread",
        default_stage=3,
        starts=("head",),
        precision="bf16",
    )
    assert configure(JOB, None, {}) == JOB


def test_cuts_are_found_where_none_are_set_as_in_smp() -> None:
    bare = ParallelPart(partitions=2, microbatches=4)
    assert configure(bare, {"optimize": "memory"}, {}) == replace(
        bare, auto_partition=True, optimize="memory"
    )
    assert not configure(bare, {"auto_partition": False}, {}).auto_partition
    assert not configure(bare, {"partition_file": "cuts.json"}, {}).auto_partition
    assert not configure(replace(bare, stages={"head": 1}), None, {}).auto_partition


def test_starts_of_a_script_replace_those_of_a_file() -> None:
    job = replace(JOB, partition_file="cuts.json")
    assert configure(job, None, {}) == job
    assert configure(job, None, {"starts": ("body",)}) == replace(JOB, starts=("body",))


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"optimize": "size"}, "optimize is 'size': use 'speed' or 'memory'"),
        ({"tensor_parallel_degree": 2}, "tensor_parallel_degree=2 is not supported: cut"),
        ({"sharded_data_parallel_degree": 2}, "use a DataParallel job that shards"),
        ({"shard_optimizer_state": True}, "use more partitions"),
        ({"offload_activations": True}, "use more microbatches"),
        ({"active_microbatches": 1}, "with 'interleaved' the first stage holds 2 at once"),
        (
            {"active_microbatches": 3, "pipeline": "simple"},
            "with 'simple' the first stage holds 4 at once",
        ),
        ({"horovod": True}, "replicas exchange their gradients without it"),
        ({"fp16": True, "bf16": True}, "bf16 and fp16 are both set: set one of them"),
        ({"fp16_params": True}, "set fp16, which keeps the parameters in 32 bits"),
        ({"load_partition": True}, "a partition_file is loaded"),
        ({"partition": 2}, "there is no 'partition': did you mean 'partitions'?"),
        ({"pipeline": "1f1b"}, "pipeline is '1f1b': use 'simple' or 'interleaved'"),
        ({"placement_strategy": "DDP"}, "placement_strategy is 'DDP': use 'cluster'"),
        (
            {"default_partition": 2},
            "default_partition is 2, but the partitions are numbered 0 to 1",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_there_is_refused_with_a_fix(config: dict[str, Any], word: str) -> None:
    with pytest.raises(ParallelError) as refusal:
        configure(JOB, config, {})
    assert word in str(refusal.value)


def test_settings_that_scripts_do_not_have_are_refused_at_once() -> None:
    job = ParallelPart(
        accumulation=4, sharded=True, shard_degree=2, compression="fp16", stages={"head": 1}
    )
    with pytest.raises(ParallelError) as refusal:
        configure(job, None, {})
    said = str(refusal.value)
    assert "use smp.DistributedModel(..., backward_passes_per_step=4)" in said
    assert "sharded=True is not supported" in said
    assert "shard_degree=2 is not supported" in said
    assert "compression='fp16'" in said
    assert "stages['head'] is 1, but the partitions are numbered 0 to 0" in said

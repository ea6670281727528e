"""The parallel strategy: the first that fits into the accelerators, its bytes and its warnings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_recommendation import TODAY, WORKLOAD, chosen, priced

from launcher.client.catalogue import InstanceType, find
from launcher.client.planning import (
    RESERVED,
    ModelFigures,
    Strategy,
    job_of_candidate,
    plain_recommendation,
    recommend,
    strategies,
    strategy_for,
)
from launcher.client.spec import DataParallel, ModelParallel
from launcher.shared import Activations, Footprint

GB = 10**9
#: 16 GB with AdamW's states, in 20 blocks, and 1 GB of activations for each sample.
FOOTPRINT = Footprint(
    parameters=4 * GB,
    gradients=4 * GB,
    states=8 * GB,
    largest=GB // 5,
    rest=0,
    activations={
        (False, False): Activations(sample=GB),
        (True, False): Activations(sample=GB // 2),
        (False, True): Activations(sample=GB // 5),
        (True, True): Activations(sample=GB // 10),
    },
)
MODEL = ModelFigures(footprint=FOOTPRINT, blocks="layers")
BATCH = 8
LARGE = replace(WORKLOAD, batch_size=64, model=replace(MODEL, batch_norm=True))
UNMEASURED = replace(MODEL, batch_norm=True, footprint=replace(FOOTPRINT, activations={}))
#: One block of all parameters is gathered whole by shards.
WHOLE = replace(MODEL, footprint=replace(FOOTPRINT, largest=4 * GB), blocks=None)


def instance(gigabytes: float | None) -> InstanceType:
    """A type of four GPUs that leave so many bytes to a rank."""
    g5 = find("ml.g5.12xlarge")
    assert g5 is not None
    memory = None if gigabytes is None else (gigabytes * GB + RESERVED) / 2**30
    return replace(g5, accelerator_memory_gib=memory)


def found(gigabytes: float | None, *, model: ModelFigures = MODEL, ranks: int = 1) -> Strategy:
    return strategy_for(model, instance(gigabytes), ranks=ranks, batch_size=BATCH)


def test_a_batch_of_ten_billion_samples_is_divided() -> None:
    """Its divisors are not searched one by one, which took hours."""
    small = ModelFigures(footprint=Footprint(parameters=1, gradients=1, states=2, rest=1))
    fitting = strategy_for(small, instance(24), ranks=2, batch_size=10**10)

    assert fitting.degrees.global_batch == 2 * 10**10


def test_a_batch_takes_memory_of_the_accelerator_beside_the_model() -> None:
    large = strategy_for(MODEL, instance(24.1), ranks=1, batch_size=BATCH, batch_bytes=4 * GB)

    assert found(24.1).degrees.accumulation == 1
    assert large.degrees.accumulation == 2


@pytest.mark.parametrize(
    ("gigabytes", "ranks", "kind", "changes"),
    [
        (24.1, 1, "data parallel", ()),
        (20.1, 1, "data parallel", ("accumulation: 2 (batches of 4)",)),
        (17.1, 1, "data parallel", ("accumulation: 8 (batches of 1)",)),
        (16.6, 1, "data parallel", ("precision: bf16", "accumulation: 8 (batches of 1)")),
        (
            16.15,
            1,
            "data parallel",
            ("precision: bf16", "recomputed: [layers]", "accumulation: 8 (batches of 1)"),
        ),
        (28.1, 4, "data parallel", ()),
        (9.1, 4, "sharded", ("precision: bf16", "recomputed: [layers]", "sharded: true")),
    ],
)
def test_remedies_are_tried_from_the_least_change_on(
    gigabytes: float, ranks: int, kind: str, changes: tuple[str, ...]
) -> None:
    """Sums by hand: 16 GB held, 4 more for replicas' copies of gradients, and 8 samples at once."""
    strategy = found(gigabytes, ranks=ranks)

    assert (strategy.kind, strategy.changes, strategy.fits) == (kind, changes, True)
    assert strategy.degrees.global_batch == ranks * BATCH


@pytest.mark.parametrize(
    ("gigabytes", "kind", "stages", "replicas"), [(5.2, "pipeline", 4, 1), (11, "hybrid", 2, 2)]
)
def test_a_model_whose_shards_are_too_large_is_cut_into_stages(
    gigabytes: float, kind: str, stages: int, replicas: int
) -> None:
    """Its job finds the cuts when it starts."""
    strategy = found(gigabytes, model=WHOLE, ranks=4)
    pipeline = strategy.distribution(WHOLE)

    degrees = strategy.degrees
    assert (strategy.kind, degrees.pipeline, degrees.data) == (kind, stages, replicas)
    assert strategy.changes[-1].startswith(
        f"model_parallel: {{partitions: {stages}, microbatches: "
    )
    assert strategy.fits
    assert isinstance(pipeline, ModelParallel)
    assert (pipeline.partitions, pipeline.auto_partition) == (stages, True)
    assert pipeline.precision == "bf16"


def test_a_model_that_is_too_large_fits_in_no_way() -> None:
    assert found(1, ranks=1).fits is False
    assert found(0.1, ranks=4).fits is False


def test_what_is_unknown_is_said_to_be_unknown() -> None:
    without = replace(MODEL, footprint=replace(FOOTPRINT, activations={}))

    assert found(None).fits is None
    assert found(24.1, model=without).fits is None
    assert found(15, model=without).fits is False  # what is known is too much already


def test_what_the_steps_were_timed_with_is_no_change() -> None:
    timed = replace(MODEL, precision="bf16", recomputed=True)
    strategy = found(17.1, model=timed)

    assert strategy.changes == ()
    assert strategy.distribution(timed) == DataParallel(precision="bf16", recomputed=("layers",))


def test_blocks_without_a_name_are_not_recomputed() -> None:
    tried = strategies(replace(MODEL, blocks=None), instance(1), 4, BATCH)

    assert not any(each.savings.recomputed for each in tried)


@pytest.mark.parametrize(
    ("gigabytes", "ranks", "distribution"),
    [
        (24.1, 1, None),
        (28.1, 4, DataParallel()),
        (20.1, 1, DataParallel(accumulation=2)),
        (9.1, 4, DataParallel(sharded=True, precision="bf16", recomputed=("layers",))),
    ],
)
def test_a_job_has_the_strategy(
    gigabytes: float, ranks: int, distribution: DataParallel | None
) -> None:
    assert found(gigabytes, ranks=ranks).distribution(MODEL) == distribution


def test_a_plan_has_its_strategy_in_numbers() -> None:
    plan = chosen(LARGE, [priced("ml.g5.12xlarge", 7.09)])
    plain = plain_recommendation(plan, 1)["recommended"]["strategy"]

    assert (plain["kind"], plain["fits"], plain["global_batch"]) == ("data parallel", True, 256)


@pytest.mark.usefixtures("packaged_prices")
def test_types_on_which_the_model_does_not_fit_are_named() -> None:
    plan = recommend(LARGE, gpu_types=["g5.xlarge", "g5.12xlarge"], today=TODAY)
    huge = replace(LARGE, model=replace(MODEL, footprint=replace(FOOTPRINT, states=10**12)))
    none = recommend(huge, gpu_types=["g5.xlarge"], today=TODAY)

    assert "ml.g5.12xlarge" not in plan.without_memory
    assert none.without_memory == ("ml.g5.xlarge",)
    assert none.best is None
    assert "too little memory" in none.reason


def test_without_figures_of_the_model_nothing_is_guessed() -> None:
    plan = chosen(WORKLOAD, [priced("ml.g5.12xlarge", 7.09)])
    assert plan.best is not None

    assert plan.best.strategy is None
    assert plain_recommendation(plan, 1)["recommended"]["strategy"] is None
    assert job_of_candidate(plan.best).distribution == DataParallel()

"""A cluster's parallel strategy in sentences: what it is, what it rests on, and its warnings."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.parallel_strategy import (
    FEW_SAMPLES,
    RESERVED,
    Strategy,
    strategies,
)
from launcher.shared import bytes_text

UNKNOWN = (
    "The model's memory is not in the workload, so its parallel strategy is not planned: "
    "`launcher plan measure --task` measures it."
)


def strategy_text(candidate: Candidate) -> str:
    """Return the strategy of a cluster and what a rank needs, in a line."""
    found = candidate.strategy
    if found is None:
        return UNKNOWN
    changes = f" with {', '.join(found.changes)}" if found.changes else ""
    return f"Parallel strategy: {_name(found)}{changes}; {_memory(found)}"


def strategy_warnings(candidate: Candidate) -> Iterator[str]:
    """Yield what the user must know before choosing a cluster's strategy."""
    found, model = candidate.strategy, candidate.workload.model
    if found is None or model is None:
        return
    if found.changes:
        yield (
            "The step was timed without these changes, which make it longer or shorter: time it "
            "with them. Shorter sequences or smaller images need less memory, too."
        )
    if found.fits is None and found.available is not None:
        yield "The workload has no bytes of these activations, so it may not fit."
    if found.samples_at_once < FEW_SAMPLES and model.batch_norm is not False:
        if_any = "" if model.batch_norm else "If the model has batch normalisation: "
        yield (
            f"{if_any}it sees {found.samples_at_once} samples at once, and gets worse below "
            f"{FEW_SAMPLES}: use a larger batch, synchronised batch normalisation or group "
            "normalisation."
        )
    yield from _shared_batch(candidate)


def _shared_batch(candidate: Candidate) -> Iterator[str]:
    """Yield a warning about a global batch that is kept while the ranks become more."""
    ranks, workload = candidate.shape.ranks, candidate.workload
    size, model = workload.batch_size, workload.model
    if ranks > 1 and model and model.batch_norm and size / ranks < FEW_SAMPLES <= size:
        yield (
            f"The global batch grows to {ranks} x {size} = {ranks * size} samples. Kept at {size}, "
            f"it would leave {size / ranks:.3g} for each rank's batch normalisation."
        )


def strategy_why(candidate: Candidate) -> Iterator[str]:
    """Yield the arithmetic of a strategy, and why those before it were not taken."""
    found, model = candidate.strategy, candidate.workload.model
    if found is None or model is None:
        yield UNKNOWN
        return
    degrees, bytes_of = found.degrees, found.need
    yield (
        f"global batch: {degrees.data} replicas x {degrees.accumulation} accumulated batches x "
        f"{degrees.microbatches} microbatches x {degrees.microbatch} samples = "
        f"{degrees.global_batch}"
    )
    parts = [
        f"{name} {bytes_text(count)}" if count is not None else f"{name} unknown"
        for name, count in vars(bytes_of).items()
    ]
    yield f"memory of a rank: {', '.join(parts)}"
    if found.available is not None:
        yield (
            f"memory of an accelerator: {bytes_text(found.available)} beside its batch and "
            f"{bytes_text(RESERVED)} for the process and its libraries"
        )
    instance = candidate.shape.train.instance
    load = candidate.workload
    tried = strategies(
        model, instance, candidate.shape.ranks, load.batch_size, load.bytes_per_batch
    )
    least: dict[str, Strategy] = {}
    for other in tried:
        if other == found:
            break
        name = " and ".join((_kind(other), *_settings(other)))
        if name not in least or other.need.total < least[name].need.total:
            least[name] = other
    for name, other in least.items():
        yield f"{name}: {bytes_text(other.need.total)} at least, which does not fit"


def _name(found: Strategy) -> str:
    degrees = found.degrees
    if found.kind == "hybrid":
        return f"hybrid, {degrees.data} replicas of {degrees.pipeline} stages"
    if found.kind == "pipeline":
        return f"pipeline of {degrees.pipeline} stages"
    return found.kind if degrees.world == 1 else f"{found.kind} over {degrees.world} ranks"


def _kind(found: Strategy) -> str:
    return _name(found).replace("hybrid, ", "")


def _settings(found: Strategy) -> Iterator[str]:
    if found.savings.precision:
        yield "16 bits"
    if found.savings.recomputed:
        yield "recomputed activations"


def _memory(found: Strategy) -> str:
    needed = bytes_text(found.need.total)
    known = "" if found.need.activations is not None else ", activations not counted"
    if found.available is None:
        return f"a rank needs {needed}{known}, and the accelerator's memory is unknown"
    return f"a rank needs {needed} of {bytes_text(found.available)}{known}"

"""The computation of each number of a cluster, a line for each, and its parallel strategy."""

from __future__ import annotations

import math
from collections.abc import Iterator

from launcher.client.catalogue import dollars_text
from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.exchange import traffic
from launcher.client.planning.plans.parallel_strategy import (
    FEW_SAMPLES,
    RESERVED,
    Strategy,
    strategies,
)
from launcher.client.planning.plans.step_model import (
    SECONDS_PER_GB,
    SERVED_BATCHES,
    data_workers,
    family,
    local_workers,
    spare_vcpus,
)
from launcher.shared import PREFETCH_SHARE, bytes_text


def explanation(candidate: Candidate) -> Iterator[str]:
    """Yield how each number of a cluster is computed, a line each."""
    yield from _needs(candidate)
    yield from _step(candidate)
    yield from strategy_why(candidate)
    yield from _costs(candidate)


def unmeasured_families(candidate: Candidate) -> list[str]:
    """Return the CPU families of a cluster whose speed the workload does not have."""
    shape = candidate.shape
    families = {family(each.instance) for each in (shape.train, shape.data) if each}
    return sorted(families - set(candidate.workload.cpu_speed))


def _needs(candidate: Candidate) -> Iterator[str]:
    load, shape = candidate.workload, candidate.shape
    samples, mean = candidate.samples_per_step, load.cpu_seconds_per_sample.mean
    yield f"samples per step: {shape.ranks} ranks x {load.batch_size} = {samples}"
    each = load.cpu_seconds_per_batch.mean
    loader = f" + {shape.ranks} batches x {each:.4g} s" if each else ""
    needed = samples * mean + shape.ranks * each
    yield f"CPU of a step: {samples} samples x {mean:.4g} s{loader} = {needed:.4g} vCPU seconds"
    if wait := load.wait_seconds_per_sample.mean:
        yield (
            f"waiting of a step: {samples} samples x {wait:.4g} s = {samples * wait:.4g} seconds "
            "of workers"
        )
    train, workers = shape.train, shape.train.count * local_workers(load, shape.train)
    have = f"{train.count} x {train.instance.vcpu}"
    busy = f"{shape.ranks} ranks x {load.cpus_per_rank:g}"
    if train.workers is None:
        idle = f"{have} - {busy} = {spare_vcpus(load, train):g}"
        yield f"idle vCPUs of the train hosts: {idle}, for {workers} local workers"
    else:
        yield f"vCPUs of the train hosts: {have}, for {workers} workers of the script and {busy}"
    if shape.data:
        vcpus = shape.data.count * (shape.data.instance.vcpu or 0)
        workers = data_workers(load, shape.data.instance)
        yield (
            f"vCPUs of the data group: {shape.data.count} x {shape.data.instance.vcpu} = {vcpus}, "
            f"for {shape.data.count * workers} workers"
        )
        yield (
            f"bytes of a step: {shape.ranks * load.bytes_per_batch / 1e9:.4g} GB; each side of the "
            f"data service takes {SECONDS_PER_GB} CPU s per GB, and {SERVED_BATCHES * each:.4g} s "
            "per batch (benchmarks/RESULTS.md)"
        )


def _step(candidate: Candidate) -> Iterator[str]:
    step = candidate.step
    if candidate.shape.data:
        yield (
            f"share of the data group: {step.offloaded:.4g} of the batches, where both sides take "
            "as long, or 0 where receiving takes longer than preparing"
        )
    yield from _exchange(candidate)
    formulas = step.formulas
    for resource, needed in step.seconds_by_resource.items():
        binding = ", the bottleneck" if resource is step.bottleneck else ""
        yield f"{resource.value}: {_ms(needed)} per step{binding} = {formulas[resource]}"
    yield (
        f"prepared ahead: {step.prefetch.batches} batches of each rank, by "
        f"{bytes_text(step.prefetch.host_bytes)} on each train host, which keeps all workers busy "
        f"or takes {PREFETCH_SHARE:.0%} of the memory"
    )
    if step.stall:
        yield (
            f"waits for batches that take long: {_ms(step.stall)} per step, of samples that are "
            "log-normal with the workload's deviation"
        )
    low, high = _ends(candidate)
    yield f"step: {_ms(step.expected)}, the bottleneck's time and the waits"
    yield f"step at least: {_ms(step.seconds.low)}, with {low}"
    yield f"step at most: {_ms(step.seconds.high)}, with {high}"
    yield f"GPU busy: {step.gpu_busy:.1%} = the accelerator's own time / the step"


def _exchange(candidate: Candidate) -> Iterator[str]:
    """Yield what ranks add to each other's steps, and whether that is measured or computed."""
    load, train = candidate.workload, candidate.shape.train
    sent = traffic(load, train.instance, train.count)
    if train.count > 1 and load.communication_seconds_per_step is not None:
        yield "between ranks: measured (communication_seconds_per_step)"
    elif sent and candidate.step.exchange:
        places = {"by each host to others": sent.host, "by each rank within its host": sent.rank}
        parts = [f"{bytes_text(round(size))} {place}" for place, size in places.items() if size]
        yield (
            f"between ranks: computed, of {' and '.join(parts)}, in part beside the backward pass"
        )


def _ends(candidate: Candidate) -> tuple[str, str]:
    """Return the cases in which the step is shortest and longest."""
    low, high = "each measure at its low end", "each measure at its high end"
    if unknown := ", ".join(unmeasured_families(candidate)):
        low += f", and vCPUs of {unknown} as fast as their range allows"
        high += f", and vCPUs of {unknown} as slow"
    if candidate.workload.cpu_seconds_per_sample.deviation:
        high += ", and samples two standard errors above their mean"
    return low, high


def _costs(candidate: Candidate) -> Iterator[str]:
    shape, per_hour = candidate.shape, candidate.per_hour
    groups = [group for group in (shape.train, shape.data) if group]
    terms = [
        f"{group.count} x ${price.per_hour:g} ({price.region or 'any region'}, "
        f"{price.as_of or 'unknown date'})"
        for group, price in zip(groups, candidate.prices, strict=True)
    ]
    if math.isnan(per_hour):
        yield "dollars: unknown, as the price of a type is"
        return
    yield f"per hour: {' + '.join(terms)} = ${per_hour:.3f}"
    seconds = candidate.step.expected
    yield f"per step: ${per_hour:.3f} / 3600 x {seconds:.4g} s = ${candidate.per_step.expected:.4g}"
    steps, epoch = candidate.steps_per_epoch, candidate.per_epoch
    if steps is not None and epoch is not None:
        samples = candidate.workload.samples_per_epoch
        yield (
            f"per epoch: {steps} steps = ceil({samples} / {candidate.samples_per_step}), "
            f"{dollars_text(epoch.expected)}"
        )
    hours, total = candidate.hours, candidate.total
    if hours is not None and total is not None:
        start = candidate.workload.start_seconds.mean
        training = f"{candidate.workload.epochs} epochs x {steps} steps x {seconds:.4g} s"
        yield (
            f"hours: ({training} + {start:.4g} s of its start) / 3600 = {hours.expected:.4g} "
            f"({hours.low:.4g} to {hours.high:.4g})"
        )
        yield (
            f"total: {hours.expected:.4g} hours x ${per_hour:.3f} = {dollars_text(total.expected)} "
            f"({dollars_text(total.low)} to {dollars_text(total.high)})"
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


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

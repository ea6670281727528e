"""Changes that would mend each cause, where they need no price: the text after a finding."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.shared.causes.cause import BUSY_CPU, IDLE_CPU, NEGLIGIBLE, Cause, Finding, StepLimit
from launcher.shared.causes.cause_evidence import Evidence, GroupUse, has_use, mean_of

_CHEAPER = (
    "prepare less on CPUs: decode on the GPU (NVIDIA DALI), send uint8 instead of float32, or "
    "store smaller images"
)
_TIME_LEFT = (
    "do not add data hosts: those that there are have time left; look at the network between the "
    "groups, and for single samples that take very long"
)


def mends(finding: Finding, evidence: Evidence) -> tuple[str, ...]:
    """Return the changes that the finding asks for, the first one first, without prices."""
    return tuple(_MENDS[finding.limit](finding, evidence))


def data_hosts_idle(evidence: Evidence) -> bool:
    """Return whether data hosts have idle CPUs, and no reason is known why batches are late."""
    data, used = evidence.known_wait, _cpu_use(evidence.feeds)
    return used is not None and used < IDLE_CPU and (data is None or data.bound is None)


def _input(finding: Finding, evidence: Evidence) -> Iterator[str]:
    data, training = evidence.known_wait, _cpu_use(evidence.train)
    if data_hosts_idle(evidence) and (training is None or training < BUSY_CPU):
        yield from _storage(finding, evidence)
        return
    if evidence.feeds and data is not None and data.bound is Cause.UNKNOWN:
        yield _TIME_LEFT
    yield _CHEAPER


def _cpu_use(groups: tuple[GroupUse, ...]) -> float | None:
    """Return the share of groups' CPUs that is in use; None with too few figures."""
    return mean_of(groups, lambda group: group.cpu) if has_use(groups) else None


def _compute(_finding: Finding, evidence: Evidence) -> Iterator[str]:
    if not evidence.feeds:
        data = evidence.known_wait
        waited = 0.0 if data is None else data.share
        effect = f"at most {waited:.0%} shorter" if waited >= NEGLIGIBLE else "no shorter"
        yield f"do not add a data group: it would make a step {effect}"
    yield (
        "compute less or faster: mixed precision (bf16), torch.compile, larger batches, or a "
        "faster accelerator; `launcher plan` compares their prices"
    )


def _communication(_finding: Finding, evidence: Evidence) -> Iterator[str]:
    hosts = sum(group.count for group in evidence.train)
    if hosts > 1:
        yield "use fewer hosts with more accelerators each, or types with EFA"
    yield (
        "communicate less often or less: larger batches per rank, gradient accumulation, or "
        "gradients in bf16 (gradient_compression)"
    )
    yield "for a pipeline: more microbatches, and other cuts (`launcher plan cut`)"


def _storage(_finding: Finding, evidence: Evidence) -> Iterator[str]:
    if evidence.feeds:
        yield (
            "raise data_service.workers_per_host: workers that wait for storage leave their "
            "CPUs idle, and more of them wait at the same time"
        )
    else:
        yield (
            "read ahead: a data group, or more loader processes, as those that wait for "
            "storage leave their CPUs idle"
        )
    if "File" not in evidence.input_modes:
        yield "copy the data to the hosts' disks first: input_mode File, or FSx"
    yield "read fewer, larger files: shards of 100 MB and more instead of one a sample"


def _imbalanced(finding: Finding, evidence: Evidence) -> Iterator[str]:
    yield f"look at {finding.culprit}: launcher logs {evidence.job_name}{_host(finding)}"
    yield (
        "if it is slow in another run too, its share of the work is larger (longer samples, a "
        "stage with more layers: `launcher plan cut`); if not, the instance was"
    )


def _host(finding: Finding) -> str:
    host = (finding.culprit or "").rpartition(" on ")[2]
    return f" --host {host}" if host else ""


def _stalled(finding: Finding, _evidence: Evidence) -> Iterator[str]:
    yield _MEND_OF_STALL.get(finding.cause, "look at what the script does there")


_MEND_OF_STALL = {
    Cause.LOCK: "hold the lock for less, or give each thread and process its own copy",
    Cause.CHILD: "do in the background what the script waits for, or start it once and keep it",
    Cause.SLEEP: "remove the pause: wait for an event instead of polling",
    Cause.NETWORK: "send in the background, or less often",
    Cause.STORAGE: "write in the background, to a local disk, or less often",
    Cause.GARBAGE: "gc.freeze() after the set-up, gc.disable() or a higher gc.set_threshold()",
    Cause.FIRST_EPOCH: "warm up what the first epoch waits for: caches, compilation, downloads; or "
    "keep the prepared samples",
    Cause.EVALUATION: "evaluate less often, on fewer samples, or in larger batches",
    Cause.CHECKPOINT: "save less often, or in the background (torch.distributed.checkpoint)",
    Cause.HANG: "read what each rank was doing: launcher logs, and the stacks in it",
}


def _not_sure(_finding: Finding, evidence: Evidence) -> Iterator[str]:
    if evidence.data is None:
        yield "read the data with launcher.data.DataLoader, which measures the wait for it"
    if not evidence.ranks and evidence.train and sum(each.count for each in evidence.train) > 1:
        yield "train a launcher.trainers.Task, which measures computing and communication apart"
    yield "let the job train for some minutes more, then ask again"


_MENDS = {
    StepLimit.INPUT: _input,
    StepLimit.COMPUTE: _compute,
    StepLimit.COMMUNICATION: _communication,
    StepLimit.STORAGE: _storage,
    StepLimit.IMBALANCED: _imbalanced,
    StepLimit.STALLED: _stalled,
    StepLimit.NOT_SURE: _not_sure,
}

"""The causes that limit a job's steps, and the thresholds between them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: Fewer batches, or seconds, than this are too few to judge by.
FEWEST_STEPS, SHORTEST = 10, 1.0
#: Fewer values of a host are no evidence: five minutes of CloudWatch, 25 seconds of a local job.
FEWEST_POINTS = 5
#: Fewer measured steps of a rank than this are no evidence, and more than MANY_STEPS are sure.
FEW_STEPS, MANY_STEPS = 5, 20
#: A figure is far from its threshold if it is beyond it by this share of the threshold.
CLEAR = 0.5

#: A job that waits for less than this share of the time is not input-bound.
NEGLIGIBLE = 0.03
#: A wait of this share limits a step: below it, nine tenths are something else.
WORTH_IT = 0.1
#: A script that waits for more than this share of the time computes next to nothing: it measures
#: its loader, and no number of workers is advised.
NOTHING_COMPUTED = 0.95
#: Those that prepare batches and use the CPU for less than this share of their time wait for
#: something else.
COMPUTING = 0.5
#: A kind of wait is known if a thread was seen to wait for this share of the time: one that wants a
#: CPU, or Python's lock, is seen to run.
SEEN_WAITING = 0.25
#: Workers that are busy for this share of the time are saturated.
SATURATED = 0.75
#: A data host is at its limit alone if the others are busy for this share of the time at most.
UNUSED_HOST = 0.4
#: Workers that are blocked for this share of the time may be limited by sending.
BLOCKED = 0.15
#: Bytes a second below which a network is not what holds batches up.
FLOWING = 1e6
#: A receiver's memory that was this full has held workers up itself.
FULL = 0.9
#: A host is slow when its batches take this many times as long as those of the others.
SLOW_HOST = 2.0
#: A host whose longest batch took this many times its mean may only have had the heavy batches.
STEADY = 4.0
#: Workers that wait for a CPU for this share of their time are too many for their host.
CPU_STARVED = 0.2

#: A step that waits for other ranks for this share is communication-bound: to halve that time would
#: save an eighth of the cost.
COMMUNICATING = 0.25
#: A step that computes for this share leaves nothing else worth changing.
MOSTLY_COMPUTING = 0.7
#: A rank is slow if it takes this many times as long as the others. Equal hosts differ by a few
#: percent, and a rank's share of the samples by one batch.
SLOW_RANK = 1.5
#: A rank is idle if it takes this share of the batches of another one, or less.
IDLE_RANK = 0.5
#: One of several accelerators is idle at this share, where the others are used this much.
UNUSED_GPU, USED_GPU = 0.05, 0.3
#: Other work takes a host's CPUs from a job if it uses this share, and all of them are busy.
OTHER_WORK = 0.2

#: A part of a step is late if it takes this many times its median, and this share of the steps at
#: most has one: more of them are what is usual.
LATE, FEW_LATE = 3.0, 0.25
#: A first epoch is slow if its steps take this many times as long as those of the others.
SLOW_FIRST = 1.5

#: CPUs that are busy for this share of the time are saturated. Not 1: a host pauses between epochs,
#: for evaluations and for checkpoints, and its mean includes these.
BUSY_CPU = 0.85
#: CPUs that are busy for less than this share have time left, so that they hold up nothing.
IDLE_CPU = 0.6
#: Accelerators that are busy for this share of the time are the limit. NVML and CloudWatch count
#: the time in which any kernel runs, so that a limiting accelerator shows nearly 1.
BUSY_GPU = 0.85
#: Accelerators that are busy for less than this share of the time wait for something. AWS's
#: published experiment has 0.45 with a CPU bottleneck, and 0.74 when that is removed.
IDLE_GPU = 0.7
#: A host's accelerators differ from those of the other hosts if their shares do by this much.
UNEVEN = 0.25


class WaitKind(str, enum.Enum):
    """A reason for which a thread does not run, as far as the kernel tells it."""

    LOCK = "lock"
    CHILD = "child"
    DISK = "disk"
    NETWORK = "network"
    SLEEP = "sleep"
    OTHER = "other"


class StepLimit(str, enum.Enum):
    """The kind of a cause: the part of a step that is too long."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"
    COMMUNICATION = "communication-bound"
    STORAGE = "storage-bound"
    IMBALANCED = "imbalanced"
    STALLED = "stalled"
    NOT_SURE = "not sure"


class Cause(str, enum.Enum):
    """A cause that limits the steps of a job. The first ten are those of a wait for data."""

    NOTHING = "nothing"
    LOADING = "loading"
    WORKERS = "workers"
    SENDING = "sending"
    RECEIVER = "receiver"
    MEMORY = "memory"
    SLOW_HOST = "slow_host"
    EPOCH_STARTS = "epoch_starts"
    UNKNOWN = "unknown"
    TOO_SHORT = "too_short"
    CPUS = "cpus"
    STORAGE = "storage"
    SLOW_RANK = "slow_rank"
    UNEVEN_HOST = "uneven_host"
    COMMUNICATION = "communication"
    COMPUTE = "compute"
    LOCK = "lock"
    CHILD = "child"
    NETWORK = "network"
    SLEEP = "sleep"
    INTERPRETER = "interpreter"
    GARBAGE = "garbage"
    FIRST_EPOCH = "first_epoch"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    STALLS = "stalls"
    HANG = "hang"
    IDLE_RANK = "idle_rank"
    IDLE_GPU = "idle_gpu"
    NOT_SURE = "not_sure"

    @property
    def limit(self) -> StepLimit:
        """The kind of this cause; INPUT if it is a reason to wait for data."""
        return _LIMITS.get(self, StepLimit.INPUT)


_LIMITS = {
    Cause.NOTHING: StepLimit.NOT_SURE,
    Cause.TOO_SHORT: StepLimit.NOT_SURE,
    Cause.NOT_SURE: StepLimit.NOT_SURE,
    Cause.STORAGE: StepLimit.STORAGE,
    Cause.SLOW_HOST: StepLimit.IMBALANCED,
    Cause.SLOW_RANK: StepLimit.IMBALANCED,
    Cause.UNEVEN_HOST: StepLimit.IMBALANCED,
    Cause.COMMUNICATION: StepLimit.COMMUNICATION,
    Cause.COMPUTE: StepLimit.COMPUTE,
    Cause.NETWORK: StepLimit.STORAGE,
    Cause.SLEEP: StepLimit.STORAGE,
    Cause.GARBAGE: StepLimit.STALLED,
    Cause.FIRST_EPOCH: StepLimit.STALLED,
    Cause.EVALUATION: StepLimit.STALLED,
    Cause.CHECKPOINT: StepLimit.STALLED,
    Cause.STALLS: StepLimit.STALLED,
    Cause.HANG: StepLimit.STALLED,
    Cause.IDLE_RANK: StepLimit.IMBALANCED,
    Cause.IDLE_GPU: StepLimit.IMBALANCED,
}


class Confidence(str, enum.Enum):
    """The strength of a finding's evidence.

    HIGH: measured, and far from the threshold. MEDIUM: measured near a threshold, or concluded from
    the use of the machines. LOW: figures that contradict each other, or have another explanation.
    NONE: nothing was found.
    """

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The cause, how sure it is, and the figures that show it, as a sentence.

    culprit: the slow host or rank, such as "algo-2" or "rank 3", or the user's function; None
    without one. kind: where it is another than the cause's own.
    """

    cause: Cause
    confidence: Confidence
    why: str
    culprit: str | None = None
    kind: StepLimit | None = None

    @property
    def limit(self) -> StepLimit:
        """The kind of the cause."""
        return self.kind or self.cause.limit

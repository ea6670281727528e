"""How the ranks of a job share a model, as the job says it."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.contract.variables import PARALLEL_VARIABLE
from launcher.errors import ContractError


class Schedule(str, enum.Enum):
    """In which order stages work on microbatches.

    With p ranks, v stages on each and m microbatches, all but the last idle for
    (p - 1) / (v m + p - 1) of a step. The first two names are those of SageMaker's model-parallel
    library v1.
    """

    #: GPipe: all forward passes, then all backward passes; the activations of m microbatches live.
    SIMPLE = "simple"
    #: 1F1B: a stage goes back as soon as it can; min(m, p - stage) live. With several stages on a
    #: rank it is Megatron's interleaved schedule (arXiv 2104.04473).
    INTERLEAVED = "interleaved"
    #: Gradients of weights wait for time that would be idle (ZB1P of arXiv 2401.10241).
    ZERO_BUBBLE = "zero_bubble"


class Objective(str, enum.Enum):
    """What the cuts of a model are to be best at."""

    SPEED = "speed"  # the seconds of a step
    MEMORY = "memory"  # the bytes of the rank with the most


SCHEDULES = tuple(each.value for each in Schedule)
OBJECTIVES = tuple(each.value for each in Objective)
PLACEMENTS = ("cluster", "spread")
PRECISIONS = ("bf16", "fp16")
COMPRESSIONS = ("fp16", "bf16", "int8", "power_sgd")


@dataclass(frozen=True, kw_only=True)
class ParallelPart:
    """What a rank starts from: the degrees, where a model is cut, and what is saved on memory.

    partitions: ranks that a model is cut for; microbatches: parts of a batch that go through them.
    accumulation: batches that a replica reads for one optimizer step.
    schedule: in which order the stages work, one of SCHEDULES; virtual_stages: stages of a rank.
    placement: which ranks are neighbours, one of PLACEMENTS.
    starts: the module at which each stage but the first begins. stages: or modules by their stage,
        and default_stage that of all others.
    sharded: whether replicas share parameters, gradients and the optimizer's state (FSDP2).
    compression: of the gradients that replicas exchange, one of COMPRESSIONS.
    precision: what is computed in, one of PRECISIONS; None for the parameters' own.
    recomputed: modules whose activations are not kept, but computed again.
    partition_file: the file that starts and their like come from, "" for none. In the job document
        it is a name in the code channel, in a rank the file's path.
    auto_partition: whether rank 0 finds the starts when the job begins, for `optimize`, "speed" or
        "memory", within memory_cap bytes of a rank.
    """

    partitions: int = 1
    microbatches: int = 1
    accumulation: int = 1
    schedule: str = "interleaved"
    virtual_stages: int = 1
    placement: str = "cluster"
    starts: tuple[str, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    default_stage: int = 0
    sharded: bool = False
    compression: str | None = None
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    partition_file: str = ""
    auto_partition: bool = False
    optimize: str = "speed"
    memory_cap: int | None = None

    @property
    def is_by_measure(self) -> bool:
        """Whether the model is cut where a measurement says, made before or by rank 0."""
        return bool(self.partition_file) or self.auto_partition

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it: what is not as by default, so that older runtimes read the rest."""
        default = dataclasses.asdict(ParallelPart())
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
            if value != default[name]
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> ParallelPart:
        """Raises TypeError for a field that there is not."""
        lists = {name: tuple(value) for name, value in raw.items() if isinstance(value, list)}
        return cls(**{**raw, **lists})

    def to_json(self) -> str:
        return json.dumps(self.to_fields(), sort_keys=True)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ParallelPart:
        """What the job says, in one of its ranks; the defaults outside of one.

        Raises ContractError where the variable does not hold one.
        """
        text = environ.get(PARALLEL_VARIABLE, "{}")
        try:
            return cls.from_fields(json.loads(text))
        except (ValueError, TypeError, AttributeError) as error:
            raise ContractError(
                f"{PARALLEL_VARIABLE} is {text!r}, which is not what a job says: {error}; it is "
                "set by Launcher, so take it out of the job's environment"
            ) from error

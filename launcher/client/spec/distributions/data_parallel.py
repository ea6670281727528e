"""Data-parallel training under torchrun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from launcher.client.spec.distributions.base import (
    TorchrunDistribution,
    parallel_part,
)
from launcher.client.spec.field_checks import word_problems
from launcher.client.spec.job_parts import names
from launcher.errors import Problem
from launcher.shared import COMPRESSIONS, DEFAULT_HANG_TIMEOUT, ParallelPart, TrainerPart

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class DataParallel(TorchrunDistribution):
    """Data-parallel training under torchrun: each rank of the train group holds the whole model.

    processes_per_host: None means one per accelerator of the train group's type, at least one.
    hang_timeout: seconds that a rank may wait in one collective or for one batch. After that,
        every rank's stack is logged and the job fails. 0 disables the limit.
    accumulation: batches that a rank reads per optimizer step.
    compression: gradient compression between ranks: "fp16", "bf16", "int8" or "power_sgd";
        not with sharded.
    sharded: whether parameters, gradients and optimizer state are sharded over ranks (FSDP2).
    precision: "bf16" or "fp16", for automatic mixed precision.
    recomputed: modules whose activations are recomputed in the backward pass instead of kept;
        of a module list, those of each of its modules.
    instance_groups: the group whose hosts train, where several groups run the script.
    """

    word: ClassVar[str] = "data_parallel"
    #: SDK v2's keys for a DistributedDataParallel script under torchrun.
    sdk_v2_keys: ClassVar[tuple[str, ...]] = ("torch_distributed", "pytorchddp")

    processes_per_host: int | None = None
    hang_timeout: int = DEFAULT_HANG_TIMEOUT
    accumulation: int = 1
    compression: str | None = None
    sharded: bool = False
    precision: str | None = None
    recomputed: Sequence[str] = ()
    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))
        object.__setattr__(self, "recomputed", names(self.recomputed))

    @property
    def parallel(self) -> ParallelPart:
        """The settings that are sent to the ranks."""
        return parallel_part(self)

    @classmethod
    def noun(cls) -> str:
        """Return its name in messages, which are also those of an unclear distribution."""
        return "a distribution"

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with its fields."""
        yield from self.field_problems()
        yield from word_problems((*self.path, "compression"), self.compression, COMPRESSIONS)
        if self.sharded and self.compression is not None:
            yield Problem(
                path=(*self.path, "compression"),
                about=((*self.path, "sharded"),),
                what=f'compression is "{self.compression}", and sharded is true',
                fix="remove one of them: torch compresses only the gradients of whole replicas",
            )

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> DataParallel | None:
        """Return the distribution; None if the ranks have settings that it has no fields for."""
        made = super().from_trainer_part(trainer)
        return made if made is not None and made.parallel == trainer.parallel else None

"""Training under jax.distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.spec_names import names
from launcher.errors import Problem
from launcher.shared import Launch, TrainerPart

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class Jax(Distribution):
    """The script once per train host, with the variables for jax.distributed.initialize.

    Each process uses all devices of its host, which is JAX's own default. Torch is not needed.

    instance_groups: as for DataParallel.
    """

    word: ClassVar[str] = "jax"
    variables: ClassVar[Sequence[str]] = (
        "JAX_COORDINATOR_ADDRESS",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES",
        "KERAS_DISTRIBUTION_NUM_PROCESSES",
        "KERAS_DISTRIBUTION_PROCESS_ID",
    )

    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find no problems: one process is a cluster, too."""
        return iter(())

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        return TrainerPart(entry_point=spec.script, launch=Launch.JAX)

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> Jax | None:
        """Return the distribution that has written this part; None if it is another's."""
        return cls() if trainer.launch == Launch.JAX else None

"""Training under TensorFlow's MultiWorkerMirroredStrategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from launcher.client.spec.distributions import tensorflow_rules
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.spec_names import names
from launcher.errors import Problem
from launcher.shared import Launch, TrainerPart

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class MultiWorkerMirrored(Distribution):
    """The script once per train host, with TF_CONFIG for tf.distribute.MultiWorkerMirroredStrategy.

    Each process uses all GPUs of its host. Hosts of other groups are not in TF_CONFIG.

    instance_groups: as for DataParallel.
    """

    word: ClassVar[str] = "multi_worker_mirrored"
    variables: ClassVar[Sequence[str]] = ("TF_CONFIG",)
    sdk_v2_group_keys: ClassVar[tuple[str, ...]] = ("multi_worker_mirrored_strategy",)

    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with what the job has beside it; a cluster of one worker is allowed."""
        yield from tensorflow_rules.find_problems(spec)

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        return TrainerPart(entry_point=spec.script, launch=Launch.MULTI_WORKER_MIRRORED)

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> MultiWorkerMirrored | None:
        """Return the distribution that has written this part; None if it is another's."""
        return cls() if trainer.launch == Launch.MULTI_WORKER_MIRRORED else None

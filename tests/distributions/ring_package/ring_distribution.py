"""A made-up distribution: the client's half of another package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from launcher.client.spec import Distribution, JobSpec, range_problems
from launcher.errors import Problem
from launcher.shared import TrainerPart


@dataclass(frozen=True, kw_only=True)
class Ring(Distribution):
    """One process per host, with a ring of some width between them.

    width: neighbours on each side.
    """

    word: ClassVar[str] = "ring"
    sdk_v2_keys: ClassVar[tuple[str, ...]] = ("ring",)
    programs: ClassVar[Mapping[str, str]] = {"ringrun": "install ringrun"}

    width: int = 1

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        yield from range_problems((*self.path, "width"), self.width, 1)

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        return TrainerPart(
            entry_point=spec.script, launch="ring", hang_timeout=0, settings={"width": self.width}
        )

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> Ring | None:
        return cls(**trainer.settings) if trainer.launch == "ring" else None

    @classmethod
    def from_sdk_v2(cls, strategies: Mapping[str, Any]) -> Ring:
        return cls(width=strategies["ring"].get("width", 1))

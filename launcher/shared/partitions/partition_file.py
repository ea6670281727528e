"""The partition file: a model's cuts and everything that the decision was based on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from launcher.errors import ParallelError
from launcher.shared import SCHEDULES, Schedule
from launcher.shared.complete_files import write_complete
from launcher.shared.partitions.file_checks import contradictions, misfits
from launcher.shared.partitions.schedule_orders import Orders
from launcher.shared.partitions.shard_costs import Sharing
from launcher.shared.partitions.stage_costs import LATER, Joint, Link, ModuleCost, Tie, written
from launcher.shared.partitions.stage_predictions import (
    CostedModel,
    StagePrediction,
    play,
    predict_stages,
    step_spread,
)
from launcher.shared.partitions.timeline import Timeline
from launcher.shared.readable_files import open_readable

__all__ = ["VERSION", "Fingerprint", "PartitionChoice", "PartitionFile", "StagePrediction"]

Read = TypeVar("Read", bound="PartitionFile")

#: Bytes of a file: that of 40,000 modules.
_LARGEST_FILE = 8 << 20
#: Version of the file. Readers refuse any other.
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Identifies the model that a partition was made from.

    parameters: shape and type by name, as "[64, 128] float32". calls: the modules that it calls, in
    order. example: the arguments of one microbatch, as shape and type. torch: its version.
    """

    parameters: Mapping[str, str]
    calls: tuple[str, ...]
    example: tuple[str, ...]
    torch: str


@dataclass(frozen=True, kw_only=True)
class PartitionChoice:
    """Another number of partitions or microbatches (of the same size), or another objective.

    step: predicted seconds. memory: bytes of the largest rank. None where the model does not fit.
    """

    objective: str
    partitions: int
    microbatches: int
    step: float | None
    memory: int | None


@dataclass(frozen=True, kw_only=True)
class PartitionFile:
    """The cuts of a model for a number of ranks, and their predicted costs.

    task: "module:function" that it was made from; "" for a model that was passed in.
    objective: "speed" or "memory". memory_cap: bytes allowed per rank. precision, recomputed,
        schedule: as for ModelParallel(...).
    profile: "measured" or "estimated". device: where; runs: number of timed passes.
    replicas: of the model, which average their gradients. shard_degree: as for ModelParallel(...);
        the costs of modules are whole ones, and the predictions are for ranks that share stages.
    starts: the module at which each stage but the first begins.
    step: predicted seconds of an optimizer step. spread: of the step, from that of the modules.
    bound: seconds that no step of other cuts is below, within the memory allowed, or within this
        memory where that is the objective. None where it is not known: in files of older Launchers,
        which did not play the schedule with its exchanges of gradients, and for edited starts.
    gap: the most that the step can be above the optimum, as a fraction of it; 0 if optimal.
    memory_gap: the same for the memory of the largest rank, where that is the objective.
    regret: the most that the step is above that of other cuts by one of the repeated profiles,
        whose medians decide, as a fraction.
    """

    version: int = VERSION
    task: str = ""
    fingerprint: Fingerprint
    objective: str
    partitions: int
    virtual_stages: int = 1
    microbatches: int
    replicas: int = field(default=1, metadata=LATER)
    shard_degree: int = field(default=1, metadata=LATER)
    schedule: str
    memory_cap: int | None = None
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    profile: str
    device: str
    runs: int
    link: Link
    modules: tuple[ModuleCost, ...]
    joints: tuple[Joint, ...] = ()
    ties: tuple[Tie, ...] = field(default=(), metadata=LATER)
    starts: tuple[str, ...]
    stages: tuple[StagePrediction, ...]
    step: float
    spread: float
    bound: float | None = field(default=None, metadata=LATER)
    gap: float = 0.0
    memory_gap: float = field(default=0.0, metadata=LATER)
    regret: float = field(default=0.0, metadata=LATER)
    choices: tuple[PartitionChoice, ...] = field(default=())

    @cached_property
    def orders(self) -> Orders:
        """The schedule's orders. Raises ParallelError for settings that it does not support."""
        if self.schedule not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise ParallelError(f"its schedule is {self.schedule!r}, and not one of {known}")
        return Orders(
            schedule=Schedule(self.schedule),
            ranks=self.partitions,
            microbatches=self.microbatches,
            virtual_stages=self.virtual_stages,
        )

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The number of the first module of each stage but the first."""
        names = [each.name for each in self.modules]
        return tuple(names.index(start) for start in self.starts)

    @cached_property
    def costs(self) -> CostedModel:
        """The costs of the modules for each of the ranks that share a stage."""
        sharing = Sharing.of_schedule(self.shard_degree, self.schedule, self.microbatches)
        return sharing.per_rank(self)

    @cached_property
    def timeline(self) -> Timeline:
        """The predicted step. Raises ParallelError where the file contradicts itself."""
        return play(self.costs, self.orders, self.places, self.stages)

    def write(self, path: Path) -> None:
        """Write the file at once: a killed process leaves a whole file or none. Raises OSError."""
        write_complete(path, self.to_json())

    def to_json(self) -> str:
        """Return the file's text, with a line for each module, stage and choice."""
        fields = written(self)
        lines = (f"  {json.dumps(name)}: {_laid_out(value)}" for name, value in fields.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls: type[Read], path: Path) -> Read:
        """Read a file. Raises ParallelError if it is not a partition file."""
        try:
            with open_readable(path) as file:
                content = file.read(_LARGEST_FILE + 1)
            if len(content) > _LARGEST_FILE:
                what = f"more than {_LARGEST_FILE >> 20} MiB, which no partition file has"
                raise ParallelError(what)
            return cls.from_json(content.decode())
        except OSError as error:
            raise ParallelError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ParallelError(f"{path} is not a text file: {error}") from error
        except ParallelError as error:
            raise ParallelError(f"{path}: {error}") from error

    @classmethod
    def from_json(cls: type[Read], text: str) -> Read:
        """Parse a file's text. Raises ParallelError if it is not that of a partition file.

        `starts` may have been edited: then the predictions are those of the new ones, and nothing
        is known about how much better other cuts are.
        """
        try:
            raw = json.loads(text)
            found = raw.get("version")
            if found != VERSION:
                raise ParallelError(
                    f"it is of version {found!r}, and this Launcher reads version {VERSION}: make "
                    "it again with `launcher plan cut`"
                )
            partition = cls(**dict(_typed(raw)))
            if wrong := [*misfits(partition), *_strays(partition)]:
                raise TypeError("; ".join(wrong))
        except _NO_FILE as error:
            raise ParallelError(
                f"this is not a file of `launcher plan cut`: {error}; make it again"
            ) from error
        return partition._checked()

    def _checked(self: Read) -> Read:
        """Return the file with predictions of its starts. Raises ParallelError."""
        if wrong := list(contradictions(self)):
            raise ParallelError(
                f"it contradicts itself: {'; '.join(wrong)}; undo the edit, or make the file again"
            )
        stages = predict_stages(self.costs, self.orders, self.places)
        if [each.start for each in self.stages] == [each.start for each in stages]:
            return self
        edited = replace(self, stages=stages, bound=None, gap=0.0, memory_gap=0.0, regret=0.0)
        spread = step_spread(self.costs, self.orders, self.places, stages)
        return replace(edited, step=edited.timeline.seconds, spread=spread)


#: Errors that parsing anything but a partition file can raise.
_NO_FILE = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
_MANY = {
    "modules": ModuleCost,
    "joints": Joint,
    "ties": Tie,
    "stages": StagePrediction,
    "choices": PartitionChoice,
}


def _typed(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        if name == "fingerprint":
            lists = {key: tuple(value[key]) for key in ("calls", "example")}
            yield name, Fingerprint(**{**value, **lists})
        elif name == "link":
            yield name, Link(**value)
        elif name in _MANY:
            yield name, tuple(_MANY[name](**_with_tuples(each)) for each in value)
        else:
            yield name, tuple(value) if isinstance(value, list) else value


def _with_tuples(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise TypeError(f"{raw!r} must be a mapping, not {type(raw).__name__}")
    return {key: tuple(each) if isinstance(each, list) else each for key, each in raw.items()}


def _strays(partition: PartitionFile) -> Iterator[str]:
    """Yield the first start, if any, that names no module, or several, for a later stage."""
    names = [each.name for each in partition.modules]
    left = iter([each.name for each in partition.modules[1:] if each.crossing is not None])
    for start in partition.starts:
        if start not in left:  # advances the iterator past it
            yield f"no stage can start at {start!r}, or not after the starts before it"
            return
        if names.count(start) > 1:
            yield f"{names.count(start)} modules are called {start!r}"
            return


def _laid_out(value: object) -> str:
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"    {json.dumps(each)}" for each in value) + "\n  ]"
    return json.dumps(value)

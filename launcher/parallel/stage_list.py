"""Stages that the script wrote: a list of modules, each called with the output of the one before.

pipeline = Pipeline([embedding, blocks, head], world, example={"ids": ids}, loss=loss)
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext


class StageList(nn.Module):  # type: ignore[misc] # torch types it as Any
    """A model of stages, which stay whole; its arguments are those of the first one.

    The parts of a tuple or list that a stage returns are the arguments of the next. Stage 1 has the
    name "1", and its parameters "1.weight".

    Raises ParallelError for something else than modules, and for a module that is twice in it.
    """

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        super().__init__()
        for number, stage in enumerate(stages):
            if not isinstance(stage, nn.Module):
                raise ParallelError(f"stage {number} is a {type(stage).__name__}, not a module")
            if first := next((name for name, each in self.named_children() if each is stage), None):
                raise ParallelError(
                    f"stages {first} and {number} are one module: make two, which may share "
                    "parameters"
                )
            self.add_module(str(number), stage)
        if not self._modules:
            raise ParallelError("the list of stages is empty")

        def forward(self: StageList, *arguments: Any, **named: Any) -> Any:
            first, *others = self.children()
            output = first(*arguments, **named)
            for stage in others:
                output = stage(*output) if isinstance(output, (tuple, list)) else stage(output)
            return output

        found = inspect.signature(type(stages[0]).forward)
        forward.__signature__ = found  # type: ignore[attr-defined]
        self.forward = types.MethodType(forward, self)

    def starts(self, world: ParallelContext) -> list[str]:
        """Return where each stage of the pipeline but the first begins.

        Raises ParallelError if the pipeline has another number of stages, no part of this one, or
        the job cuts the model as well.
        """
        job, count, stages = world.job, len(self._modules), world.degrees.stages
        settings = {
            "stages": job.stages,
            "partition_file": job.partition_file,
            "auto_partition": job.auto_partition,
            "starts": job.starts,
        }
        if given := next((name for name, value in settings.items() if value), None):
            raise ParallelError(f"the job has {given}, and the script gives a list of stages")
        if count % stages:
            raise ParallelError(
                f"the list has {count} stages, and the pipeline {stages}: give as many, or a "
                "multiple, whose neighbours then share a rank"
            )
        return [*self._modules][count // stages :: count // stages]


def as_model(model: nn.Module | Sequence[nn.Module], starts: object) -> nn.Module:
    """Return a model as it is, and a list of stages as a model. Raises ParallelError."""
    if isinstance(model, nn.Module) and not isinstance(model, nn.ModuleList):
        return model
    if starts is not None:
        raise ParallelError("starts is given with a list of stages, which begin where they are")
    return StageList([*model])


def written_stages(model: nn.Module) -> Mapping[str, str]:
    """Return the names of stages that the script wrote, each with why it is not cut."""
    names = model._modules if isinstance(model, StageList) else ()
    return dict.fromkeys(names, "is a stage that the script wrote")

"""Python's state that recorded code or several stages share, of which each rank has a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.tracing import Observation, PythonState, place

if TYPE_CHECKING:
    from launcher.parallel.stages import Stage


def called(model: nn.Module, stages: Sequence[Stage]) -> list[nn.Module]:
    """Return the modules that stages call, in any mode."""
    modes = [stage.in_mode(training) for stage in stages for training in (True, False)]
    names = {
        str(node.target)
        for stage in modes
        for node in stage.module.graph.find_nodes(op="call_module")
    }
    return [model.get_submodule(name) for name in sorted(names)]


def around(model: nn.Module, stages: Sequence[Stage]) -> list[nn.Module]:
    """Return the modules that stages do not call, but parts of them: their code was recorded."""
    inside = {each for module in called(model, stages) for each in module.modules()}
    return [
        module
        for module in model.modules()
        if module is model or (module not in inside and not inside.isdisjoint(module.modules()))
    ]


class RecordedState:
    """Python state that the code between modules has read: it is part of the stages as it was.

    modules: those whose code it is, the model first.
    """

    def __init__(self, model: nn.Module, modules: Sequence[nn.Module]) -> None:
        self._names = {module: name or "the model" for name, module in model.named_modules()}
        self._model = model
        self._modules = modules
        self.renew()

    def renew(self) -> None:
        """Keep the state as it is now."""
        states = ((each, PythonState([each], with_children=False)) for each in self._modules)
        self._states = [(each, state) for each, state in states if state.names]
        self._parts = [
            (module, parts, dict(parts))
            for module in self._modules
            for parts in (module._modules, module._parameters, module._buffers)
        ]

    def check(self) -> None:
        """Raise ParallelError for what has changed."""
        for module, change in self._changes():
            raise ParallelError(
                f"{change} of {self._names[module]} ({type(module).__name__}) has changed, but the "
                "code between the modules was recorded with what it was when the pipeline was "
                "created: pass it as an argument of the model, or read it in a module of its own "
                "within one stage (model.part.alpha = 0.5 then works), or create the pipeline again"
            )

    def _changes(self) -> Iterator[tuple[nn.Module, str]]:
        for module, state in self._states:
            if changes := state.read_changes():
                yield module, next(iter(changes.values()))
            if module.training != self._model.training and "training" in state.names:
                yield module, "the mode"
        for module, parts, before in self._parts:
            for name in {**before, **parts} if parts != before else ():
                if parts.get(name) is not before.get(name):
                    yield module, repr(name)


@dataclass(frozen=True)
class Readers:
    """Readers of Python's state on the ranks of a replica: the code of a model, and a loss."""

    model: nn.Module
    loss: object


class SharedState:
    """Python state that the code of each stage, and the code between modules, reads."""

    def __init__(self, readers: Readers, stages: Sequence[Stage]) -> None:
        model = readers.model
        every = set(model.modules())
        self._registered = {id(each) for each in (*model.parameters(), *model.buffers())}
        self._between = PythonState(around(model, stages), with_children=False)
        self._of_stages = []
        for number, stage in enumerate(stages):
            own = called(model, [stage])
            running = {each for module in own for each in module.modules()}
            others = [readers.loss] if number == len(stages) - 1 else []
            self._of_stages.append(PythonState(own, idle=every - running, others=others))
        self._own: list[set[int]] = [set() for _ in stages]

    def change_by(self, number: int, seen: Observation, since: int) -> str:
        """Return what the run of a stage has changed that others read, or "".

        seen: has the writes to tensors; those of the stage are since a number of them.
        """
        written = set(seen.written[since:])
        for other, state in enumerate([*self._of_stages, self._between]):
            if other == number:
                self._own[number] = set(state.read_changes())
                continue
            before = self._own[other] if other < len(self._own) else set()
            found = [name for key, name in state.read_changes().items() if key not in before]
            reader = f"stage {other}" if other < len(self._own) else "the code between modules"
            if found:
                return f"{found[0]}, which {reader} reads"
            if any(place(each) in written for each in self._unregistered(state)):
                return f"a tensor that is no buffer, which {reader} reads"
        return ""

    def _unregistered(self, state: PythonState) -> Iterator[torch.Tensor]:
        return (each for each in state.read_tensors() if id(each) not in self._registered)

"""Trace a model into a graph of module calls, with example values.

Only the code between modules is traced (`tracing.recorder`). Modules stay as they are, so they
handle train and eval mode, buffers, random numbers and their own state themselves. A module becomes
a single call if its inside cannot be traced, draws random numbers, changes its state, has hooks, or
behaves differently in eval mode. If the model's own code does so, it is traced in both modes, and
its draws are seeded (`tracing.draws`); so are the draws of a module that holds a list of blocks.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn.parameter import is_lazy
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.stage_list import written_stages
from launcher.parallel.tracing import (
    BY_VALUE,
    Observation,
    PythonState,
    Recorder,
    Recording,
    Same,
    code_of,
    eval_differences,
    flatten,
    hooks,
    preserved_tensors,
    random_state,
)

_MEND = "move that code into a module of its own, which then stays whole"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The calls of a model's forward, in order; their targets are the names of its modules.

    values: of each node, with tensors on the meta device. drawing: the modules that draw random
    numbers in this mode, and the code between modules that does (`draws.code_of`). changing: the
    modules whose calls change their state. reasons: why modules that are single calls could not be
    traced. evaluation: the trace in eval mode, if the model's own code makes other calls there.
    checked: modules whose code may use values of a batch, which must be those of the example.
    recomputed: modules that a checkpoint of torch calls, in either mode.
    """

    graph: fx.Graph
    values: Mapping[fx.Node, Any]
    drawing: frozenset[str]
    changing: frozenset[str]
    reasons: Mapping[str, str]
    evaluation: Trace | None = None
    checked: frozenset[str] = frozenset()
    recomputed: frozenset[str] = frozenset()


def trace(model: nn.Module, arguments: Mapping[str, object]) -> Trace:
    """Trace a model. It is called with the arguments, in both modes, and restored.

    arguments: the model's arguments by name, for one microbatch. Those that are not tensors are
    part of the trace.

    Raises ParallelError when the model's own forward depends on the values of tensors, draws random
    numbers other than by functions of torch, or changes the model.
    """
    _check_model(model)
    with caches_off(model):
        return _settled(model, arguments, functools.partial(_trace, model, arguments))


def _trace(
    model: nn.Module, arguments: Mapping[str, object], created: Mapping[str, str] | None
) -> Trace:
    whole = {**written_stages(model), **(created or {})}
    is_settled = created is not None
    checked = {""}
    while True:
        train, evaluation = (
            _record(model, arguments, mode, whole, checked=checked, is_settled=is_settled)
            for mode in (True, False)
        )
        if reasons := train.reasons | evaluation.reasons:
            by_value = {name for name, why in reasons.items() if why.endswith(BY_VALUE)}
            large = {name for name in by_value - checked if _holds_most(model, name)}
            checked |= large
            whole |= {name: why for name, why in reasons.items() if name not in large}
            continue
        different = eval_differences(train, evaluation)
        seeded = train.drawing | evaluation.drawing
        if inner := {name for name in different if name and code_of(name) not in seeded}:
            whole |= dict.fromkeys(inner, "behaves differently in eval mode")
            continue
        found = _finished(train, _hooked(model) | whole, evaluation if different else None)
        return replace(found, checked=frozenset(checked))


def _holds_most(model: nn.Module, name: str) -> bool:
    """Return whether a module has most of the parameters, so that few cuts are left around it."""
    whole, part = (
        sum(each.numel() for each in module.parameters())
        for module in (model, model.get_submodule(name))
    )
    return bool(part > whole / 2)


def _hooked(model: nn.Module) -> dict[str, str]:
    """Return the modules that are single calls because they have a hook, with that reason."""
    first = {name: next(hooks(each), None) for name, each in model.named_modules()}
    return {name: f"has a hook ({_name_of(hook)})" for name, hook in first.items() if hook}


def _name_of(hook: object) -> str:
    return getattr(hook, "__qualname__", type(hook).__name__)


def _settled(
    model: nn.Module,
    arguments: Mapping[str, object],
    record: Callable[[Mapping[str, str] | None], Trace],
) -> Trace:
    """Trace a model; call it before if a first call sets up attributes that later ones leave.

    record: called with the modules that have then created a part, and with None before.
    """
    state, before = PythonState([model]), _parts(model)
    try:
        try:
            return record(None)
        except _AttributesChanged:
            _call_once(model, arguments)
        created = {name: part for name, part in _parts(model) - before if name in _names(before)}
        if "" in created:
            raise ParallelError(
                f"the forward of {type(model).__name__} creates {created['']} in its first call: "
                "call the model once with an example before it is cut (on all ranks, from the same "
                "seed)"
            )
        return record({name: f"creates {part} in its first call" for name, part in created.items()})
    finally:
        state.restore()


def _parts(model: nn.Module) -> set[tuple[str, str]]:
    """Return the buffers, parameters and children of all modules, each with its module's name."""
    return {
        (name, part)
        for name, each in model.named_modules()
        for part in ("", *each._buffers, *each._parameters, *each._modules)
    }


def _names(parts: set[tuple[str, str]]) -> set[str]:
    return {name for name, _ in parts}


def _call_once(model: nn.Module, arguments: Mapping[str, object]) -> None:
    """Call a model and leave its attributes as they are then, but restore its tensors."""
    _, call = bind(model, arguments)
    tensors = PythonState([model]).tensors
    with in_mode(model, training=True), preserved_random_state(), preserved_tensors(model, tensors):
        call()


class _AttributesChanged(Exception):
    """A model whose code between modules has changed attributes."""


def trace_opened(
    model: nn.Module, arguments: Mapping[str, object], opened: Collection[str], deep: Trace
) -> Trace:
    """Trace a model again, with all modules but some as single calls.

    opened: those that are not; `deep` has traced them.
    """

    def record(created: Mapping[str, str] | None) -> Trace:
        is_settled = created is not None
        train, *evaluation = (
            _record(
                *(model, arguments, mode, (), opened),
                checked=deep.checked,
                is_settled=is_settled,
            )
            for mode in ((True, False) if deep.evaluation else (True,))
        )
        return _finished(train, deep.reasons, *evaluation)

    with caches_off(model):
        return _with_findings(_settled(model, arguments, record), deep)


def _with_findings(shallow: Trace, deep: Trace) -> Trace:
    """Return a trace with what a deeper one has found within its calls."""
    evaluation = shallow.evaluation
    if evaluation is not None and deep.evaluation is not None:
        evaluation = _with_findings(evaluation, deep.evaluation)
    return replace(
        shallow,
        drawing=deep.drawing,
        changing=shallow.changing | deep.changing,
        evaluation=evaluation,
    )


def _record(
    model: nn.Module,
    arguments: Mapping[str, object],
    training: bool,
    whole: Collection[str],
    opened: Collection[str] | None = None,
    *,
    checked: Collection[str],
    is_settled: bool,
) -> Recording:
    """Record a call. Raises _AttributesChanged for a change of attributes, unless is_settled."""
    tensors, call = bind(model, arguments)
    with in_mode(model, training=training), torch.enable_grad(), preserved_random_state():
        try:
            recorder = Recorder(model, whole=whole, opened=opened, checked=checked)
            reason = recorder.run(list(tensors.items()), call)
        except (TypeError, ValueError, RuntimeError, NotImplementedError, AssertionError):
            # The branch for torch.export does not work with this example.
            recorder = Recorder(model, whole=whole, opened=opened, checked=checked, exporting=False)
            reason = recorder.run(list(tensors.items()), call)
    if recorder.has_changed_attributes and not is_settled:
        raise _AttributesChanged
    if reason:
        raise ParallelError(
            f"the forward of {type(model).__name__} cannot be traced from module to module: "
            f"{reason}; {_MEND}"
        )
    _erase_unused(recorder.recording)
    return recorder.recording


def _finished(
    found: Recording, reasons: Mapping[str, str], evaluation: Recording | None = None
) -> Trace:
    return Trace(
        graph=found.graph,
        values={n: tree_map_only(torch.Tensor, on_meta, v) for n, v in found.values.items()},
        drawing=frozenset(found.drawing),
        changing=frozenset(found.changing),
        reasons=reasons,
        recomputed=frozenset(found.recomputed),
        evaluation=None if evaluation is None else _finished(evaluation, reasons),
    )


def _erase_unused(recording: Recording) -> None:
    """Erase functions that change nothing and whose results nobody uses."""
    for node in reversed(recording.graph.nodes):
        is_pure = node.op == "call_function" and not isinstance(node.target, Same)
        if is_pure and not node.users and not node.meta.get("writes"):
            recording.values.pop(node, None)
            recording.graph.erase_node(node)


def _check_model(model: nn.Module) -> None:
    """Raise ParallelError for models that no stage can stand for."""
    name = type(model).__name__
    if lazy := [key for key, each in model.named_parameters() if is_lazy(each)]:
        raise ParallelError(
            f"{lazy[0]} of {name} has no shape yet: call the model once with an example before it "
            "is cut (on all ranks, from the same seed)"
        )
    if hook := next(hooks(model), None):
        raise ParallelError(
            f"{name} has a hook ({_name_of(hook)}), which no stage would call, since the model "
            "itself is not called, saved or loaded: register it on one of its modules, remove it "
            "once the weights are loaded, or wrap the model in a module"
        )
    caller = next(each for each in type(model).__mro__ if "__call__" in vars(each))
    if not caller.__module__.startswith("torch."):
        raise ParallelError(
            f"{name} has a __call__ of its own, which no stage would call: move its code into "
            "forward"
        )
    if hasattr(model, "_orig_mod") or isinstance(model, torch.jit.ScriptModule):
        raise ParallelError(f"{name} is compiled: cut the model that it was made from")


# Arguments ----------------------------------------------------------------------------------


def bind(
    model: nn.Module, arguments: Mapping[str, object]
) -> tuple[dict[str, torch.Tensor], Callable[[], object]]:
    """Return copies of the tensors in a model's arguments, and its call. Raises ParallelError.

    The tensors are in the order of the forward's parameters. They have the names of the arguments;
    those within a structure have a number, too.
    """
    parameters = inspect.signature(model.forward).parameters
    _check_names(model, parameters, arguments)
    # A copy of each: the model may write to it, and one that is given twice (labels=ids) is two.
    flatten(dict(arguments))  # dataclasses become structures
    ordered = tree_map_only(torch.Tensor, _copied, order_arguments(model, arguments))
    tensors: dict[str, torch.Tensor] = {}
    for name, value in ordered.items():
        leaves = [each for each in flatten(value)[0] if isinstance(each, torch.Tensor)]
        if isinstance(value, torch.Tensor):
            tensors[name] = value
        else:
            tensors |= {f"{name}_{number}": each for number, each in enumerate(leaves)}
    first = [
        value
        for name, value in ordered.items()
        if name in parameters and parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    rest = dict(itertools.islice(ordered.items(), len(first), None))
    return tensors, functools.partial(model.forward, *first, **rest)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _check_names(
    model: nn.Module,
    parameters: Mapping[str, inspect.Parameter],
    arguments: Mapping[str, object],
) -> None:
    kinds = {each.kind for each in parameters.values()}
    for name, each in parameters.items():
        is_required = each.default is each.empty and "VAR" not in each.kind.name
        if is_required and name not in arguments:
            raise ParallelError(f"the example lacks the required argument {name} of the model")
        if each.kind is each.VAR_POSITIONAL and (name in arguments or len(parameters) == 1):
            raise ParallelError(
                f"the forward of {type(model).__name__} takes *{name}: name each argument in its "
                "signature"
            )
    unknown = [name for name in arguments if name not in parameters]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise ParallelError(
            f"the example has {unknown[0]!r}, but the forward of {type(model).__name__} takes "
            f"{', '.join(parameters)}"
        )


def order_arguments(model: nn.Module, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return a model's arguments in the order of its forward's parameters, then the others."""
    named = inspect.signature(model.forward).parameters
    known = {name: arguments[name] for name in named if name in arguments}
    return known | {name: value for name, value in arguments.items() if name not in known}


# Contexts -----------------------------------------------------------------------------------


@contextlib.contextmanager
def preserved_random_state() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether random numbers were drawn; restore states at exit."""
    before = random_state()
    python, numpy_state = random.getstate(), np.random.get_state()
    with no_dispatch():  # real tensors, not fake ones
        torch_state = torch.get_rng_state()
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    try:
        yield lambda: random_state() != before
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        with no_dispatch():
            torch.set_rng_state(torch_state)
            if devices:
                torch.cuda.set_rng_state_all(devices)


@contextlib.contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Set train or eval mode within the context; restore each module's own mode afterwards.

    So is whatever else the `train` of a module changes, as one that adds low-rank weights (LoRA) to
    its own in eval mode.
    """
    before = {module: module.training for module in model.modules()}
    state = PythonState([model])
    observation = Observation(state.tensors)
    with observation:
        model.train(training)
    after = {module: module.training for module in before}
    _set_modes(before)
    undo = state.undoing()
    _set_modes(after)
    try:
        yield
    finally:
        undo()
        observation.restore()
        _set_modes(before)


def _set_modes(modes: Mapping[nn.Module, bool]) -> None:
    for module, training in modes.items():
        module.training = training


@contextlib.contextmanager
def caches_off(model: nn.Module) -> Iterator[None]:
    """Switch off, within the context, the caches for generation of Hugging Face's models."""
    switched = turn_caches_off(model)
    try:
        yield
    finally:
        for config in switched:
            vars(config)["use_cache"] = True


def turn_caches_off(model: nn.Module) -> list[object]:
    """Switch off the caches for generation, which no training needs; return the configurations."""
    configs = {id(each): each for m in model.modules() if (each := vars(m).get("config"))}
    found = [each for each in configs.values() if getattr(each, "use_cache", False) is True]
    for config in found:
        vars(config)["use_cache"] = False
    return found


def on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape, strides, dtype and requires_grad on the meta device.

    Tensors whose elements overlap or leave gaps get the strides of a copy.
    """
    if tensor.layout is torch.strided:
        like = torch.empty_like(tensor, device="meta", requires_grad=False)
    else:
        like = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return like.requires_grad_(tensor.requires_grad)

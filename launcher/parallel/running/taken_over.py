"""A model that a pipeline has taken over: its methods do what they mean, or raise by name."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.cutting.shared_state import around
from launcher.parallel.running.elsewhere import is_elsewhere, send_elsewhere
from launcher.parallel.stages import Stage
from launcher.parallel.tracing import Unfollowed

if TYPE_CHECKING:
    from launcher.parallel.pipeline import Pipeline

_OWN = "each rank has only its own stages"
_TRACED = "its code was recorded when the pipeline was created"
_MOVED = "the pipeline has moved its modules, and expects their dtypes"
_HOOK = f"{_TRACED}, and no stage would call the hook: register it on a module within one stage"
_PART = f"{_TRACED}, and no stage would have the new part: create the pipeline again"
#: What needs the values of the whole model, and what to do instead.
_DIVIDED = {
    **dict.fromkeys(
        ("parameters", "named_parameters"),
        f"{_OWN}: use pipeline.parameters(), pipeline.named_parameters() and pipeline.clip(), or "
        "collect parameters before the pipeline is created",
    ),
    **dict.fromkeys(("buffers", "named_buffers"), f"{_OWN}: use those of pipeline.module"),
    **dict.fromkeys(
        ("state_dict", "load_state_dict"),
        f"{_OWN}: save and load the pipeline with Checkpoints, whose export() writes the whole "
        "model, or load a state before the pipeline is created",
    ),
    **dict.fromkeys(
        ("__reduce_ex__", "__deepcopy__"),
        f"{_OWN}, so it cannot be copied or pickled: copy it before the pipeline is created, or "
        "save the pipeline with Checkpoints",
    ),
    "forward": f"{_OWN}: call pipeline.step() or pipeline.evaluate()",
}
#: Methods for hooks of the whole model.
HOOKS = dict.fromkeys(
    (
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_backward_hook",
        "register_state_dict_post_hook",
        "register_state_dict_pre_hook",
        "register_load_state_dict_pre_hook",
        "register_load_state_dict_post_hook",
    ),
    _HOOK,
)
#: What only the code or the parts of the whole model would see.
_CUT = {
    **HOOKS,
    **dict.fromkeys(
        ("register_buffer", "register_parameter", "register_module", "add_module", "set_submodule"),
        _PART,
    ),
    "to_empty": f"{_MOVED}: convert the model before the pipeline is created",
    "compile": f"{_TRACED}: compile modules within one stage",
    **dict.fromkeys(("get_extra_state", "set_extra_state"), f"{_TRACED}: no stage would save it"),
}


class Instead(partial[Any], Unfollowed):
    """A function in place of a module's method."""


class TakenOver:
    """A model of which a pipeline has a part on this rank, and what its methods do instead.

    stages: all of them. is_divided: whether ranks have different parts.
    """

    def __init__(
        self, model: nn.Module, stages: Sequence[Stage], pipeline: Pipeline, *, is_divided: bool
    ) -> None:
        self._model = model
        self._others = _other_modules(model, pipeline.module)
        #: The modules around those that stages call; the code of some was recorded.
        self.around = around(model, stages)
        divided = {model, *_divided(self.around, stages, pipeline)} if is_divided else set()
        self._instead = {
            module: refusals(module, _CUT | (_DIVIDED if module in divided else {}))
            | {"_apply": Instead(_apply, module)}
            for module in self.around
        }
        for module in divided:
            self._instead[module] |= {
                "zero_grad": Instead(_zero_grad, module),
                "requires_grad_": Instead(_requires_grad, module),
            }
        self._instead[model] |= {
            "train": Instead(_train, model, pipeline),
            "eval": Instead(_train, model, pipeline, mode=False),
            "zero_grad": Instead(_zero_grad, pipeline),
        }
        for module, methods in self._instead.items():
            methods.setdefault("__reduce_ex__", Instead(_reduced, module, methods))
        self._put()

    def train(self, mode: bool) -> None:
        """Set the mode of all modules of the model, as its own `train` does."""
        with self.released(), _train_skipped(self._others):
            self._model.train(mode)  # it may keep some in eval mode

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Give the modules their own methods back within the context."""
        for module, methods in self._instead.items():
            for name in methods:
                vars(module).pop(name, None)
        try:
            yield
        finally:
            self._put()

    def _put(self) -> None:
        for module, methods in self._instead.items():
            vars(module).update(methods)


def refusals(module: nn.Module, refused: Mapping[str, str]) -> dict[str, Callable[..., NoReturn]]:
    """Return what raises in place of a module's methods. refused: their names, each with why."""
    return {
        name: Instead(_refuse, f"{type(module).__name__}.{name}", why)
        for name, why in refused.items()
    }


def _divided(
    modules: Iterable[nn.Module], stages: Sequence[Stage], pipeline: Pipeline
) -> Iterator[nn.Module]:
    """Yield the modules of whose parameters and buffers different ranks have different ones."""
    ranks: dict[int, set[int]] = defaultdict(set)
    for number, stage in enumerate(stages):
        for each in _tensors(stage.module):
            ranks[id(each)].add(pipeline.holder(number))
    for module in modules:
        if len({frozenset(ranks[id(each)]) for each in _tensors(module)}) > 1:
            yield module


def send_others_elsewhere(model: nn.Module, own: nn.Module, stages: Sequence[Stage]) -> None:
    """Free the memory of parameters and buffers that only other ranks hold."""
    kept = {id(each) for each in _tensors(own)}
    stage_of = {id(each): n for n, stage in enumerate(stages) for each in _tensors(stage.module)}
    for name, each in (*model.named_parameters(), *model.named_buffers()):
        if id(each) not in kept:
            send_elsewhere(
                each,
                f"{name} of {type(model).__name__} is on another rank, in stage "
                f"{stage_of.get(id(each), 0)}: compute what needs it (a penalty, too) in the "
                "model's own forward, clip by pipeline.clip(), and register a shared parameter in "
                "each module that uses it (decoder.weight = encoder.weight)",
            )


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _train(model: nn.Module, pipeline: Pipeline, mode: bool = True) -> nn.Module:
    pipeline.train(mode)
    return model


def _other_modules(model: nn.Module, own: nn.Module) -> set[nn.Module]:
    """Return the modules that only other ranks hold."""
    names = {name for name, _ in own.named_modules(remove_duplicate=False)}
    every = list(model.named_modules(remove_duplicate=False))
    return {each for _, each in every} - {each for name, each in every if name in names}


@contextlib.contextmanager
def _train_skipped(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let `train` of some modules do nothing within the context: it may compute with weights."""
    before = {module: vars(module).get("train") for module in modules}
    for module in before:
        vars(module)["train"] = lambda mode=True, module=module: module
    try:
        yield
    finally:
        for module, own in before.items():
            if own is None:
                del vars(module)["train"]
            else:
                vars(module)["train"] = own


def _refuse(name: str, why: str, *args: object, **kwargs: object) -> NoReturn:
    raise ParallelError(f"{name} was called on a model that a pipeline has taken over: {why}")


def _zero_grad(module: nn.Module | Pipeline, set_to_none: bool = True) -> None:
    of = nn.Module if isinstance(module, nn.Module) else type(module)
    for _, parameter in of.named_parameters(module):
        if not is_elsewhere(parameter) and parameter.grad is not None:
            parameter.grad = None if set_to_none else parameter.grad.detach().zero_()


def _requires_grad(module: nn.Module, requires_grad: bool = True) -> nn.Module:
    for _, parameter in nn.Module.named_parameters(module):
        parameter.requires_grad_(requires_grad)
    return module


def _apply(
    module: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
) -> nn.Module:
    """Accept a conversion (to, half, cuda, ...) that changes nothing; else raise ParallelError."""
    for _, each in (*nn.Module.named_parameters(module), *nn.Module.named_buffers(module)):
        # On all ranks alike, whichever of them holds the values.
        given = torch.empty((), dtype=each.dtype) if is_elsewhere(each) else each
        made = convert(given)
        is_moved = made.device != given.device and given is each
        if made.dtype != given.dtype or is_moved:
            name = f"to() {made.dtype} on {made.device}"
            _refuse(name, f"{_MOVED}: convert the model before the pipeline is created")
    return module


def _reduced(module: nn.Module, methods: Mapping[str, object], protocol: Any) -> Any:
    """Return what `copy` and `pickle` make a module from, without the methods of the pipeline."""
    kind: Any = type(module)
    kind, arguments, state, *rest = kind.__reduce_ex__(module, protocol)
    own = {name: value for name, value in state.items() if methods.get(name) is not value}
    return (kind, arguments, own, *rest)

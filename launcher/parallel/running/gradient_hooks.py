"""Hooks of parameters' gradients (`weight.register_hook`) in a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from launcher.errors import ParallelError


@contextmanager
def called_once(
    named: Iterable[tuple[str, nn.Parameter]], unsuited: Callable[[nn.Parameter], str]
) -> Iterator[None]:
    """Call hooks after the context with the gradient of a batch, not with each microbatch's.

    unsuited: returns why a parameter's gradient is not yet that of the batch then, or "".

    Raises ParallelError for the hooks of such a parameter, and for hooks after the accumulation,
    which would train it amid the batch.
    """
    hooked = [each for name, each in named if _is_hooked(name, each, unsuited)]
    held = [(each, each.grad, dict(each._backward_hooks)) for each in hooked]
    for each in hooked:
        each._backward_hooks.clear()
        each.grad = None
    try:
        yield
    finally:
        for each, _, hooks in held:
            each._backward_hooks.update(hooks)
    with torch.no_grad():
        for each, before, hooks in held:
            each.grad = added(before, _changed(each.grad, hooks.values()))


def _is_hooked(name: str, parameter: nn.Parameter, unsuited: Callable[[nn.Parameter], str]) -> bool:
    why = ""
    if parameter._post_accumulate_grad_hooks:
        why = "would be called for each microbatch (register_post_accumulate_grad_hook)"
    elif parameter._backward_hooks:
        why = unsuited(parameter)
    if why:
        raise ParallelError(
            f"{name} has a hook for its gradient, which {why}: remove it, and change the gradient "
            "or step its optimizer after pipeline.step()"
        )
    return bool(parameter._backward_hooks)


def _changed(
    gradient: torch.Tensor | None, hooks: Iterable[Callable[[torch.Tensor], torch.Tensor | None]]
) -> torch.Tensor | None:
    for hook in hooks if gradient is not None else ():
        result = hook(gradient)
        gradient = gradient if result is None else result
    return gradient


def added(before: torch.Tensor | None, own: torch.Tensor | None) -> torch.Tensor | None:
    """Return an earlier gradient, in which another one is added up."""
    if before is None or own is None:
        return own if before is None else before
    return before.add_(own)

"""Collective steps that succeed on all ranks or fail on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from launcher.errors import ParallelError

_Value = TypeVar("_Value")


def run_on_all_ranks(function: Callable[[], _Value], group: dist.ProcessGroup, step: str) -> _Value:
    """Run a function on all ranks and return this rank's result.

    Raises ParallelError on all ranks if the function fails on any. step: the failed step, for the
    message.
    """
    cause: Exception | None = None
    try:
        value = function()
    except Exception as error:  # noqa: BLE001 (it is sent to all ranks, and raised on all)
        cause = error
    messages = gather(None if cause is None else _message_of(cause), group)
    if any(messages):
        failed = [(rank, text) for rank, text in enumerate(messages) if text is not None]
        raise ParallelError(f"{step}: {_by_rank(failed)}") from cause
    return value


def gather(value: _Value, group: dist.ProcessGroup) -> list[_Value]:
    """Return the values of all ranks, by rank."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return found


def _message_of(error: Exception) -> str:
    return str(error) if isinstance(error, ParallelError) else f"{type(error).__name__}: {error}"


def _by_rank(failed: list[tuple[int, str]]) -> str:
    """Return each message once, with the ranks that raised it."""
    ranks: dict[str, list[int]] = {}
    for rank, message in failed:
        ranks.setdefault(message, []).append(rank)
    return "; ".join(
        f"{message} (rank {', '.join(map(str, each))})" for message, each in ranks.items()
    )

"""Collective steps that succeed on all ranks or fail on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from launcher.errors import ParallelError

_Value = TypeVar("_Value")


def together(act: Callable[[], _Value], group: dist.ProcessGroup, doing: str) -> _Value:
    """Run a function on all ranks and return this rank's result.

    Raises a ParallelError on all ranks when it fails on one. doing: the step's name in the message.
    """
    cause: Exception | None = None
    try:
        mine = act()
    except Exception as error:  # noqa: BLE001 (it is sent to all ranks, and raised on all)
        cause = error
    words = gathered(None if cause is None else _message_of(cause), group)
    if any(words):
        failed = [(rank, said) for rank, said in enumerate(words) if said is not None]
        raise ParallelError(f"{doing}: {_by_rank(failed)}") from cause
    return mine


def gathered(value: _Value, group: dist.ProcessGroup) -> list[_Value]:
    """Return the values of all ranks, by rank."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return found


def _message_of(error: Exception) -> str:
    return str(error) if isinstance(error, ParallelError) else f"{type(error).__name__}: {error}"


def _by_rank(failed: list[tuple[int, str]]) -> str:
    """Return each message once, with the ranks that raised it."""
    ranks: dict[str, list[int]] = {}
    for rank, words in failed:
        ranks.setdefault(words, []).append(rank)
    return "; ".join(f"{words} (rank {', '.join(map(str, who))})" for words, who in ranks.items())

"""Steps that all ranks take, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from launcher.errors import ParallelError

_Value = TypeVar("_Value")


def together(act: Callable[[], _Value], group: dist.ProcessGroup, doing: str) -> _Value:
    """Do something on all ranks; what it gives on this one.

    Raises a ParallelError on all when it fails on one. doing: what, for the message.
    """
    cause: Exception | None = None
    try:
        mine = act()
    except Exception as error:  # noqa: BLE001 (it is told to all ranks, and raised on all)
        cause = error
    words = gathered(None if cause is None else _said(cause), group)
    if any(words):
        failed = [(rank, said) for rank, said in enumerate(words) if said is not None]
        raise ParallelError(f"{doing}: {_by_rank(failed)}") from cause
    return mine


def gathered(value: _Value, group: dist.ProcessGroup) -> list[_Value]:
    """The values of all ranks, by rank."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return found


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ParallelError) else f"{type(error).__name__}: {error}"


def _by_rank(failed: list[tuple[int, str]]) -> str:
    """Each message once, with the ranks that it comes from."""
    ranks: dict[str, list[int]] = {}
    for rank, words in failed:
        ranks.setdefault(words, []).append(rank)
    return "; ".join(f"{words} (rank {', '.join(map(str, who))})" for words, who in ranks.items())

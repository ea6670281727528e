"""Call `set_epoch` on a dataset, or on the dataset it wraps, before each epoch."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from launcher.data.order.user_code import error_repr, latest_traceback
from launcher.errors import DataError

#: Wrappers around a dataset that are looked into.
_LEVELS = 8
#: Attributes in which wrappers hold what they wrap: those of torch's Subset and ConcatDataset.
_INNER = ("dataset", "datasets", "sampler")

#: The epoch that each object of this process was told last, by identity: several loaders may read
#: one dataset by turns.
_told_last: dict[int, int] = {}


class FollowsEpochs(Protocol):
    """A dataset or sampler that is told which epoch comes next."""

    def set_epoch(self, epoch: int, /) -> object:
        """Make the next iteration that of an epoch."""


def call_set_epoch(dataset: object, epoch: int) -> list[FollowsEpochs]:
    """Call `set_epoch` of a dataset, or else of what it wraps; raises DataError when that raises.

    What has none is left as it is. Returns what was told.
    """
    followers = list(_with_epochs(dataset, _LEVELS))
    for each in followers:
        _remember(each, epoch)
        try:
            each.set_epoch(epoch)
        except (Exception, SystemExit) as error:
            raise DataError(
                f"set_epoch({epoch}) of a {type(each).__name__} raised {error_repr(error)}\n"
                f"{latest_traceback()}"
            ) from error
    return followers


def are_in_epoch(followers: Iterable[FollowsEpochs], epoch: int) -> bool:
    """Return whether the epoch that each of them was told last is this one, as far as is known."""
    return all(_told_last.get(id(each), epoch) == epoch for each in followers)


def _remember(told: FollowsEpochs, epoch: int) -> None:
    key = id(told)
    if key not in _told_last:
        try:
            weakref.finalize(told, _told_last.pop, key, None).atexit = False
        except TypeError:  # some objects, those with __slots__, cannot be watched
            return
    _told_last[key] = epoch


def _with_epochs(value: Any, levels: int) -> Iterator[FollowsEpochs]:
    """Yield the outermost objects that have a `set_epoch`, which `__getattr__` may give them."""
    if callable(getattr(value, "set_epoch", None)):
        yield value
    elif levels:
        attributes = getattr(value, "__dict__", {})
        for name in _INNER:
            if (inner := attributes.get(name)) is not None:
                for part in _parts(inner):
                    yield from _with_epochs(part, levels - 1)


def _parts(inner: object) -> list[object]:
    if isinstance(inner, Mapping):
        return list(inner.values())
    return list(inner) if isinstance(inner, (list, tuple)) else [inner]

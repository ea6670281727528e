"""The order of an epoch: the sample at each position, the same on every host.

A built-in order is a permutation of the sample ids, from (seed, epoch, length). A user's `sampler`
returns the ids itself, and a `batch_sampler` returns whole batches of them. Both are functions of
(length, epoch, seed) that every host calls for itself, so hosts compare the *digest* of the
results.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.order import user_code
from launcher.data.order.set_epoch import call_set_epoch
from launcher.data.order.user_code import error_repr, latest_traceback
from launcher.data.repeatable import EntropyStream, OneThread, preserve_random_states, seeding
from launcher.errors import DataError

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SampleOrder:
    """Sample ids in order, cut into batches where a batch_sampler did so.

    ids: of samples, in order. bounds: offsets at which batches begin, and the end of the last one,
    when a batch_sampler made them; a position then counts whole batches.
    """

    ids: Ids
    bounds: Ids | None = None

    def __len__(self) -> int:
        return len(self.ids) if self.bounds is None else len(self.bounds) - 1

    @functools.cached_property
    def digest(self) -> str:
        """Hash that hosts compare."""
        hashed = hashlib.blake2b(self.ids.tobytes(), digest_size=8)
        hashed.update(b"" if self.bounds is None else self.bounds.tobytes())
        return hashed.hexdigest()


#: Orders cached per kind: this epoch's and the next one's, for two streams. An order of 100 million
#: samples takes 800 MB.
_ORDERS = 4


@functools.lru_cache(maxsize=_ORDERS)
def epoch_order(seed: int, epoch: int, length: int, shuffle: bool) -> Ids:
    """Return the built-in order of the sample ids in one epoch, shape (length,)."""
    if not shuffle:
        order: Ids = np.arange(length, dtype=np.int64)
    else:
        # RandomState's streams are frozen for all versions of numpy (NEP 19); Generator's are not.
        state = np.random.RandomState(
            [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, epoch & 0xFFFFFFFF]
        )
        order = state.permutation(length).astype(np.int64)
    order.flags.writeable = False
    return order


#: A sampler that gives more ids, or batches of them, than this, and than four times the dataset's
#: length, is taken for one that never ends. So many ids take 2.7 GB as Python objects.
_MOST = {"sampler": 1 << 26, "batch_sampler": 1 << 22}


class LoadedFunction:
    """A user's function, equal to itself alone: once its module is loaded again, it is another."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._code = getattr(function, "__func__", function)  # each access binds a method anew

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoadedFunction) and self._code is other._code

    def __hash__(self) -> int:
        return id(self._code)


@dataclass(frozen=True, kw_only=True)
class SamplerCall:
    """One call of a user's sampler.

    name: of the sampler, in messages. what: "sampler" or "batch_sampler".
    """

    name: str
    what: str
    length: int
    epoch: int
    seed: int

    @property
    def function(self) -> LoadedFunction:
        """The function of that name as it is loaded now."""
        return LoadedFunction(user_code.resolve(self.name, self.what))

    def order(self, draw: Callable[[], Any]) -> SampleOrder:
        """Return the order of the ids, or of the batches of ids, that `draw` returns.

        Sets the process's random states, the same on every host. Raises DataError if `draw` fails
        or returns invalid ids.
        """
        order_seed = seeding.sample_seed(self.seed, self.epoch, 0, purpose=b"order")
        seeding.seed_everything(order_seed, EntropyStream(keeps=False))
        try:
            given = draw()
            call_set_epoch(given, self.epoch)
            most = self._most(given)
            drawn = (
                np.asarray(given)
                if hasattr(given, "__array__")
                else list(itertools.islice(given, most + 1))
            )
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise DataError(
                f"the {self.what} {self.name} raised {error_repr(error)}; it is called as "
                f"{self.what}(length={self.length}, epoch={self.epoch}, seed={self.seed}), with "
                f"positional arguments, or is an object that gives ids\n{latest_traceback()}"
            ) from error
        if isinstance(drawn, list) and len(drawn) > most:
            raise DataError(
                f"the {self.what} {self.name} does not end: it gave more than {most} "
                f"{'ids' if self.what == 'sampler' else 'batches'} for the {self.length} samples "
                f"in epoch {self.epoch}: let it end after those of one epoch, as "
                "itertools.islice(..., COUNT) does"
            )
        if self.what == "sampler":
            return SampleOrder(self._checked(drawn))
        return self._in_batches([self._checked(batch) for batch in drawn])

    def _most(self, given: object) -> int:
        """Return the number after which what was given has no end, if it has no length."""
        return max(_MOST[self.what], 4 * self.length, operator.length_hint(given, 0))

    def _in_batches(self, batches: list[Ids]) -> SampleOrder:
        if empty := [number for number, batch in enumerate(batches) if len(batch) == 0]:
            raise DataError(
                f"the batch_sampler {self.name} gave an empty batch (number {empty[0]} of epoch "
                f"{self.epoch}): leave it out"
            )
        bounds = np.cumsum([0, *map(len, batches)], dtype=np.int64)
        return SampleOrder(np.concatenate([np.empty(0, np.int64), *batches]), bounds)

    def _checked(self, ids: object) -> Ids:
        gave = f"the {self.what} {self.name} gave"
        array = _as_array(ids)
        if array is None or array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise DataError(
                f"{gave} {str(ids)[:60]} where sample ids are expected: a sampler returns ints, "
                f"and a batch_sampler a sequence of ints for each batch{self._fix(ids)}"
            )
        outside = array[(array < 0) | (array >= self.length)] if array.size else array
        if outside.size:
            raise DataError(
                f"{gave} the sample id {outside[0]}; the dataset has {self.length} samples, "
                f"0 to {self.length - 1}: give the loader a {self.what} "
                "that was made for this dataset"
            )
        return array.astype(np.int64)

    def _fix(self, ids: object) -> str:
        """Return what to write where a sampler gives whole batches of ids, as torch allows."""
        if self.what != "sampler" or not isinstance(ids, list):
            return ""
        if not ids or not hasattr(ids[0], "__len__"):
            return ""
        return (
            "; for a dataset that reads a list of indices at once, write DataLoader("
            "range(len(DATASET)), batch_sampler=..., collate_fn=lambda ids: DATASET[ids])"
        )


@functools.lru_cache(maxsize=_ORDERS)
def sampled_order(call: SamplerCall, loaded: LoadedFunction) -> SampleOrder:
    """Return the order that the function of a call gives.

    loaded: the call's `function`, so that one which a notebook has loaded again is called again.

    Raises DataError if it fails or gives invalid ids.
    """
    with preserve_random_states(), OneThread():
        return call.order(lambda: loaded.function(call.length, call.epoch, call.seed))


def _as_array(ids: Any) -> npt.NDArray[Any] | None:
    try:
        return np.asarray(ids if hasattr(ids, "__len__") else list(ids))
    except (TypeError, ValueError):  # one number, or a list of lists
        return None

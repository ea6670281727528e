"""A loader's batches as a tf.data.Dataset, over the memory in which they arrived."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from launcher.data.batches import as_arrays
from launcher.data.loader import DataLoader
from launcher.data.loader_state import State
from launcher.errors import DataError

#: Batches that tf.data holds ready for the step that comes next.
PREFETCH = 2


def from_service(
    loader: DataLoader[object],
    *,
    element_spec: object = None,
    prefetch: int = PREFETCH,
    resume_points: bool = False,
) -> tf.data.Dataset:
    """Return a loader's batches as a dataset, each iteration of which reads one epoch.

    Arrays become tensors over the same memory. An iteration that is dropped before TensorFlow has
    asked for its last batch does not count: the next one reads the same epoch from its start. Load
    a state into the loader before this call; the first iteration then reads the rest of the epoch.

    loader: a new one, which is read through the dataset alone.
    element_spec: nested tf.TensorSpec of a batch; by default, that of the first batch, with any
        number of samples unless drop_last=True makes it the same in each.
    prefetch: batches that TensorFlow holds ahead; they count towards the host's prefetch_bytes.
    resume_points: elements are (batch, resume point): a scalar string, the JSON of the loader's
        state after that batch, for `load_state_dict(json.loads(...))`. The loader's own
        `state_dict()` is ahead of what was trained, by what TensorFlow holds.

    Raises DataError for a loader that was read before, or batches that TensorFlow cannot take.
    The loader's errors reach the training loop as tf.errors.OpError with their text.
    """
    loader._count_held()
    passes = _Passes(loader, resume_points)
    spec = element_spec if element_spec is not None else spec_of(passes.peek(), loader)
    if resume_points:
        spec = (spec, tf.TensorSpec((), tf.string))
    dataset = tf.data.Dataset.from_generator(passes.read, output_signature=spec)
    if (steps := passes.constant_steps()) is not None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
    return without_auto_shard(dataset.prefetch(prefetch))


def without_auto_shard(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a dataset that no strategy divides, as the loader has this rank's share already."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


class _Passes:
    """The iterations over a loader: each reads an epoch, or one again that was dropped."""

    def __init__(self, loader: DataLoader[object], resume_points: bool) -> None:
        self._loader = loader
        self._resume_points = resume_points
        self._start: State | None = None  # of the latest pass, while it is not complete
        self._batches: Iterator[object] | None = None  # of the latest pass
        self._recorder: object = None  # the loader's, of the latest pass
        self._peeked: list[object] = []
        # TensorFlow reads in threads of its own, and may still do so in a pass that it drops.
        self._lock = threading.Lock()

    def peek(self) -> object:
        """Return the first batch of the next pass, which then begins with it."""
        batch = next(self._begin(), None)
        if batch is None:  # resumed at the end of an epoch, which a stream does not know before
            self._start = None
            batch = next(self._begin(), None)
        if batch is None:
            raise DataError(f"the loader of {self._loader._spec.dataset} has no batches")
        self._peeked.append(batch)
        return as_arrays(batch)

    def constant_steps(self) -> int | None:
        """Return the steps of every pass; None if they are unknown, or the first has fewer."""
        loader = self._loader
        if loader._spec.sampler or loader._spec.batch_sampler:
            return None  # each epoch may have another length
        if loader._plan(loader._resume_point).steps is None:
            return None  # a stream's length, if it has one, is an estimate
        whole = len(loader)
        return whole if loader._steps_left() == whole - len(self._peeked) else None

    def read(self) -> Iterator[object]:
        """Yield the batches of a pass, as TensorFlow's thread asks for them."""
        with self._lock:
            peeked, self._peeked = self._peeked, []
            if self._loader._latest is not self._recorder or not peeked:
                peeked.clear()
                self._begin()
            batches = self._batches
            left = self._loader._steps_left()
        left = None if left is None else left + len(peeked)
        while (element := self._next(batches, peeked, is_last=left == 1)) is not None:
            left = None if left is None else left - 1
            yield element
            del element  # only TensorFlow holds the memory

    def _next(
        self, batches: Iterator[object] | None, peeked: list[object], *, is_last: bool
    ) -> object:
        """Return the next element of a pass; None at its end, or once another has begun."""
        with self._lock:
            if batches is None or batches is not self._batches:
                return None
            batch = peeked.pop() if peeked else next(batches, None)
            if batch is None or is_last:
                self._start = None  # it is complete; TensorFlow need not ask for another batch
            if batch is None:
                return None
            arrays = as_arrays(batch)
            if not self._resume_points:
                return arrays
            return arrays, json.dumps(self._loader.state_dict())

    def _begin(self) -> Iterator[object]:
        loader = self._loader
        if self._start is not None and loader._latest is self._recorder:
            loader.load_state_dict(self._start)  # the pass before was dropped
        self._start = loader.state_dict()
        self._batches = iter(loader)
        self._recorder = loader._latest
        return self._batches


def spec_of(batch: object, loader: DataLoader[object]) -> object:
    """Return the tf.TensorSpec of each array of a batch."""
    collates = loader._spec.collates
    is_whole = loader.drop_last and not loader._spec.batch_sampler
    size = loader.batch_size if is_whole and loader._spec.on_error != "skip" else None

    def spec(leaf: object) -> tf.TensorSpec:
        array = np.asarray(leaf)
        if (kind := _type_of(array)) is None:
            raise DataError(
                f"a batch of {loader._spec.dataset} holds a {type(leaf).__name__} of type "
                f"{array.dtype}, which is no tensor: return numbers, strings and arrays of these"
            )
        # A collate_fn may return parts of another length, such as all tokens of a batch.
        varies = collates and array.ndim > 0 and len(array) != size
        return tf.TensorSpec((None, *array.shape[1:]) if varies else array.shape, kind)

    return tf.nest.map_structure(spec, batch)


def common_spec(batches: Iterable[object], loader: DataLoader[object]) -> object:
    """Return the nested tf.TensorSpec that fits each of the batches."""
    first, *others = (spec_of(batch, loader) for batch in batches)
    return tf.nest.map_structure(
        lambda spec, *more: spec.most_specific_common_supertype(more) or spec, first, *others
    )


def _type_of(array: np.ndarray[Any, Any]) -> tf.DType | None:
    """Return TensorFlow's type of an array; None if it has none."""
    if array.dtype.kind == "O":  # texts, as `as_arrays` returns them
        return tf.string if all(isinstance(each, (str, bytes)) for each in array.flat) else None
    try:
        return tf.string if array.dtype.kind in "SU" else tf.as_dtype(array.dtype)
    except TypeError:  # dates, records, and floats of 80 bits
        return None

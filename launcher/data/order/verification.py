"""Some batches are prepared twice, to find datasets that do not repeat themselves.

All processes choose the same batches. What both preparations gave is compared by fingerprints: of
the batch's structure, and of each row of each array.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from launcher.data.batches import Array, PlainBatch, structure
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.repeatable import seeding
from launcher.errors import DataError
from launcher.runtime import log_event

#: Batches at the start of a rank's first epoch that are prepared twice by default.
_FIRST = 3
#: Rows of a batch that have fingerprints of their own; longer batches have one for each array.
_MAX_ROWS = 1024
#: 2 to the 64th, and its golden section, whose multiples are spread evenly modulo it.
_WHOLE = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15
#: Bytes of an array that are hashed whole; of a larger one as many, in blocks spread over it.
_HASHED = 1 << 18
_BLOCK = 1 << 12

Parts = tuple[object, Sequence[Array]]


@dataclass(frozen=True, kw_only=True)
class BatchContent:
    """Content of a batch, by fingerprints.

    structure: of all but arrays. arrays: their types and shapes. rows: for each array, those of its
    rows where it has one for each sample, else its own.
    """

    structure: str
    arrays: list[str]
    rows: list[list[str]]

    @classmethod
    def of_step(
        cls, plan: BatchPlan, step: int, tree: object, arrays: Sequence[Array]
    ) -> BatchContent:
        """Take the fingerprints of the batch of a step."""
        if plan.spec.on_error == "skip":
            tree, arrays = _without_traceback(tree, arrays)
        return cls.take(tree, arrays, plan.samples_in(step))

    @classmethod
    def take(cls, tree: object, arrays: Sequence[Array], samples: int) -> BatchContent:
        """Take the fingerprints of a batch of so many samples."""
        return cls(
            structure=fingerprint(tree, []),
            arrays=[f"{array.dtype} of shape {array.shape}" for array in arrays],
            rows=[_rows(array, samples) for array in arrays],
        )

    def difference(self, other: BatchContent, ids: Sequence[int]) -> str:
        """Return how another preparation differs, "" if it does not. ids: of the samples."""
        if self.arrays != other.arrays:
            return f"its arrays: {', '.join(self.arrays)}, and {', '.join(other.arrays)}"
        for number, (mine, others) in enumerate(zip(self.rows, other.rows, strict=True)):
            rows = [
                row for row, pair in enumerate(zip(mine, others, strict=True)) if len({*pair}) > 1
            ]
            if rows:
                which = f"sample {ids[rows[0]]}" if len(mine) == len(ids) > 0 else "its samples"
                return f"{which}, in array {number} ({self.arrays[number]})"
        return "what it holds beside arrays" if self.structure != other.structure else ""


def is_chosen(plan: BatchPlan, step: int) -> bool:
    """Return whether the batch of a step is prepared twice.

    By default these are the first ones of epoch 0, or after a resumption within an epoch; those of
    a share lie evenly spread. With seeding="worker" none is, since its random numbers depend on the
    process.
    """
    spec = plan.spec
    if spec.verify is None:
        return step < _FIRST and _is_first(plan) and spec.seeding != "worker"
    offset = _offset(plan.spec.seed, plan.epoch, plan.rank)
    return (offset + step * _GOLDEN) % _WHOLE < spec.verify * _WHOLE


def _is_first(plan: BatchPlan) -> bool:
    """Return whether a job begins, or continues, with this plan."""
    return plan.epoch == 0 or plan.position > 0 or bool(plan.holes or plan.done)


def chosen_steps(plan: BatchPlan) -> range:
    """Return the steps among which some may be prepared twice; none where none is."""
    if plan.spec.seeding == "worker" or plan.spec.verify == 0:
        return range(0)
    if plan.spec.verify is None:
        return range(min(_FIRST, plan.steps) if _is_first(plan) else 0)
    return range(plan.steps)


@functools.lru_cache(maxsize=64)
def _offset(seed: int, epoch: int, rank: int) -> int:
    return seeding.sample_seed(seed, epoch, rank, purpose=b"verify")


class LocalVerifier:
    """Compares batches that this process or its forks have prepared with second preparations.

    What this process prepares again shows what differs from one time to the next, not from one
    process to the next.
    """

    def __init__(self) -> None:
        self._differing: set[str] = set()  # datasets already logged as such

    def chooses(self, plan: BatchPlan, step: int) -> bool:
        """Return whether a batch is prepared twice; by default for a stream's first loader."""
        return is_chosen(plan, step) and (
            plan.spec.verify is not None or _first.setdefault(plan.spec.name, self) is self
        )

    def check(self, plan: BatchPlan, step: int, one: Parts, prepare: Callable[[], Parts]) -> None:
        """Prepare a batch again, and compare; raises as `compare` does."""
        self.compare(plan, step, BatchContent.of_step(plan, step, *one), prepare())

    def compare(self, plan: BatchPlan, step: int, first: BatchContent, again: Parts) -> None:
        """Compare two preparations.

        Raises DataError where a difference is an error; otherwise logs the first one.
        """
        ids = [] if plan.spec.is_sampled else plan.sample_ids(step)
        difference = first.difference(BatchContent.of_step(plan, step, *again), ids)
        if not difference:
            return
        text = describe_difference(plan, step, difference)
        if plan.spec.on_nondeterminism == "error":
            raise DataError(text)
        if plan.spec.dataset not in self._differing:
            self._differing.add(plan.spec.dataset)
            log_event("dataset_differs", logging.WARNING, dataset=plan.spec.dataset, why=text)


#: Of each stream's first loader in this process.
_first: dict[str, LocalVerifier] = {}


class LaterPreparation:
    """The latest batch of an epoch that one process is to prepare again, after the next one.

    The script has the batch by then, and no batch comes later than without a comparison.
    """

    def __init__(self, verifier: LocalVerifier) -> None:
        self._verifier = verifier
        #: Prepares it again and compares, if there is one; raises as `LocalVerifier` does.
        self.due: Callable[[], None] | None = None

    def add(self, plan: BatchPlan, step: int, one: Parts, prepare: Callable[[], Parts]) -> None:
        """Record a batch that was prepared; its arrays may change from now on."""
        first = BatchContent.of_step(plan, step, *one)
        self.due = lambda: self._verifier.compare(plan, step, first, prepare())


class SecondPreparations:
    """Batches of an epoch that one process has prepared, and another one is to prepare again."""

    def __init__(self, plan: BatchPlan, verifier: LocalVerifier) -> None:
        self._plan = plan
        self._verifier = verifier
        self._first: dict[int, BatchContent] = {}

    def is_to_come(self, step: int, tree: object, arrays: Sequence[Array]) -> bool:
        """Record a first preparation; return whether the batch is to be prepared again."""
        if not self._verifier.chooses(self._plan, step):
            return False
        self._first[step] = BatchContent.of_step(self._plan, step, *_disassembled(tree, arrays))
        return True

    def compare(self, step: int, tree: object, arrays: Sequence[Array]) -> None:
        """Compare the second preparation with the first; raises as `LocalVerifier` does."""
        first = self._first.pop(step)
        self._verifier.compare(self._plan, step, first, _disassembled(tree, arrays))


def _disassembled(tree: object, arrays: Sequence[Array]) -> Parts:
    return structure.disassemble(tree.content) if isinstance(tree, PlainBatch) else (tree, arrays)


def describe_difference(plan: BatchPlan, step: int, difference: str) -> str:
    """Describe a batch that was not the same when it was prepared again, and how to mend it."""
    return (
        f"{plan.spec.dataset} is not reproducible: the batch of {plan.describe_batch(step)} was "
        f"prepared twice and differs in {difference}; let samples follow from their index and "
        "seeded generators alone, not from the clock, the process, threads or samples before; a "
        "generator in C (of cv2, tokenizers, numba, Pillow, polars, SQL) needs a seed drawn from "
        "`random`"
    )


def _without_traceback(tree: Any, arrays: Sequence[Array]) -> tuple[object, Sequence[Array]]:
    """Return a pair of a batch and its `Skipped` without the text, which may hold addresses."""
    kind, batch, (*counts, _, text) = tree  # a text that is an array is the last one
    return [kind, batch, counts], arrays[: text[1]] if isinstance(text, list) else arrays


def _rows(array: Array, samples: int) -> list[str]:
    if array.ndim and array.shape[0] == samples <= _MAX_ROWS:
        return [fingerprint(None, [row])[:8] for row in array]
    return [fingerprint(None, [array])]


def fingerprint(tree: object, arrays: list[Array], before: str = "") -> str:
    """Return 16 hexadecimal digits for a batch, and for those that gave `before`.

    Arrays above 256 KiB count by 64 blocks of 4 KiB, besides their type and shape.
    """
    hashed = hashlib.blake2b(before.encode(), digest_size=8)
    hashed.update(json.dumps(tree).encode())
    for array in arrays:
        hashed.update(f"{array.dtype.str}{array.shape}".encode())
        for block in _blocks(array):
            hashed.update(block)
    return hashed.hexdigest()


def combined(fingerprints: list[str]) -> str:
    """Return one fingerprint for several, in this order."""
    return hashlib.blake2b(" ".join(fingerprints).encode(), digest_size=8).hexdigest()


def _blocks(array: Array) -> list[memoryview]:
    if array.size == 0:
        return []
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if raw.size <= _HASHED:
        return [raw.data]
    count = _HASHED // _BLOCK
    starts = (number * (raw.size - _BLOCK) // (count - 1) for number in range(count))
    return [raw[start : start + _BLOCK].data for start in starts]

"""The loader: what a training script sees of the data service."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.data import structure
from launcher.data.meters import StreamMeter
from launcher.data.plan import Plan, StreamSpec, Uneven
from launcher.data.sources import Source, open_source
from launcher.errors import DataError
from launcher.runtime.events import emit

_STATE_VERSION = 1


@dataclass(frozen=True)
class _Place:
    """Where reading begins: samples of the epoch that all ranks have taken already."""

    epoch: int
    position: int = 0


class DataLoader:
    """Batches of a dataset, prepared on the data group when the job has one, else in-process.

    The batches are the same, bit for bit and in the same order, in both cases and with any number
    of data hosts. Each `for` over the loader is one epoch; with `shuffle`, each has an order of its
    own, a pure function of (seed, epoch, length). Random augmentation in the dataset may use
    `random`, `numpy.random` and `torch`: they are seeded for each sample.

    >>> loader = DataLoader("pipeline:train_set", batch_size=64, shuffle=True)   # doctest: +SKIP
    >>> for images, labels in loader:                                            # doctest: +SKIP
    ...     train_step(images, labels)

    dataset: "module:function", a function beside the script that returns a map-style dataset.
    batch_size: samples per rank and step.
    drop_last: leave out an incomplete last step.
    uneven: "pad" (default), "drop" or "error", when the last step does not divide among the ranks;
        every rank always has the same number of steps.
    name: of the stream, for two loaders that read one dataset in different ways.
    rank, world_size: this reader's share; by default RANK and WORLD_SIZE as torchrun sets them.
        world_size=1 reads everything, on one rank or on each.
    tensors: whether arrays come as torch tensors; by default when torch has been imported.

    Raises DataError for wrong arguments, SampleError when the dataset raises, and
    DataServiceUnavailable when the job's data group cannot be reached.
    """

    def __init__(
        self,
        dataset: str,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        uneven: Uneven = "pad",
        name: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        tensors: bool | None = None,
    ) -> None:
        if not isinstance(dataset, str):
            raise DataError(
                f"a dataset is named, as in 'pipeline:train_set', so that data hosts can build it "
                f"too; got a {type(dataset).__name__}"
            )
        self._spec = StreamSpec(
            name=name or dataset,
            dataset=dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            uneven=uneven,
        )
        self._rank = int(os.environ.get("RANK", 0)) if rank is None else rank
        self._world = int(os.environ.get("WORLD_SIZE", 1)) if world_size is None else world_size
        if world_size == 1 and rank is None:
            self._rank = 0
        if tensors is None:
            tensors = "torch" in sys.modules
        self._leaf = structure.as_tensor if tensors else (lambda array: array)
        self._source: Source | None = None
        self._length: int | None = None
        self._meter = StreamMeter(self._report)
        self._next = _Place(epoch=0)  # where the next `for` begins
        self._passes = 0
        self._reading: _Place | None = None  # where the latest one stands, unless it is complete

    def __len__(self) -> int:
        """Steps of this rank in a whole epoch."""
        return self._plan(_Place(epoch=0)).steps

    def __iter__(self) -> Iterator[Any]:
        plan = self._plan(self._next)
        self._next = _Place(epoch=plan.epoch + 1)
        self._reading = _Place(plan.epoch, plan.position) if plan.steps else None
        self._passes += 1
        return self._read(plan, self._passes)

    def set_epoch(self, epoch: int) -> None:
        """Let the next `for` read this epoch, from its start."""
        self._next, self._reading = _Place(epoch=epoch), None

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: after the batch that was handed out last. A few hundred bytes."""
        place = self._reading or self._next
        return {
            "version": _STATE_VERSION,
            "dataset": self._spec.dataset,
            "shuffle": self._spec.shuffle,
            "seed": self._spec.seed,
            "epoch": place.epoch,
            "position": place.position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next `for` go on where the state was taken.

        The number of ranks and the batch size may differ from then; the dataset, its shuffling and
        the seed may not. Raises DataError.
        """
        if state.get("version") != _STATE_VERSION:
            raise DataError(f"not a state of this loader: version {state.get('version')!r}")
        mine = self.state_dict()
        for key in ("dataset", "shuffle", "seed"):
            if state[key] != mine[key]:
                raise DataError(
                    f"the state was taken with {key}={state[key]!r}, and this loader has "
                    f"{key}={mine[key]!r}: its samples would not continue those before"
                )
        self._next = _Place(epoch=state["epoch"], position=state["position"])
        self._reading = None

    # ---------------------------------------------------------------------------------------

    def _plan(self, place: _Place) -> Plan:
        if self._source is None:
            self._source = open_source()
        if self._length is None:
            self._length = self._source.length(self._spec.dataset)
        return Plan(
            spec=self._spec,
            length=self._length,
            epoch=place.epoch,
            rank=self._rank,
            world=self._world,
            position=place.position,
        )

    def _report(self, figures: Mapping[str, float]) -> None:
        assert self._source is not None  # made with the plan
        self._source.report(self._spec.name, figures)

    def _read(self, plan: Plan, this_pass: int) -> Iterator[Any]:
        assert self._source is not None  # made with the plan
        clock = self._meter.begin()
        steps = count = 0
        batches = self._source.batches(plan)
        try:
            for step in range(plan.steps):
                if self._passes != this_pass:
                    raise DataError(
                        f"a newer iteration over {self._spec.name} has begun, which ends this one; "
                        "to read it twice at once, make two loaders with a name= each"
                    )
                with clock:
                    tree, arrays = next(batches)
                    batch = structure.rebuild(tree, arrays, self._leaf)
                del arrays  # the memory is the user's alone, and free when they let go of it
                steps, count = steps + 1, count + len(plan.positions(step))
                position = plan.position_after(step)
                self._reading = None if position is None else _Place(plan.epoch, position)
                yield batch
                del batch
        finally:
            batches.close()
            self._meter.end(clock)
            emit(
                "data_epoch",
                stream=self._spec.name,
                epoch=plan.epoch,
                steps=steps,
                samples=count,
                pads=plan.pads,
                drops=plan.drops,
                **clock.fields(),
            )

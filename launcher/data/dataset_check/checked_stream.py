"""The stream read to check a dataset: the same plan in both processes."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Generator
from typing import Any

from launcher.data.dataset_check.check_request import CheckRequest
from launcher.data.order import (
    BatchContent,
    BatchPlan,
    Parts,
    ResumePoint,
    ServedCodeCheck,
    ShardBatch,
    ShardPlan,
    StreamSpec,
    make_plan,
    plan_shards,
)
from launcher.data.sources import LocalSource
from launcher.runtime import paths_here

#: Samples of the batch whose structure is shown, where the loader's batch_size is unknown.
_BATCH_SIZE = 8
#: Epochs whose orders a sampler is asked for.
_EPOCHS = (0, 1)


class CheckedStream:
    """The samples, the first batch and the orders that a loader would give in this process.

    Raises DataError, as all methods do, for code that the job does not serve or that fails.
    """

    def __init__(self, request: CheckRequest) -> None:
        self._request = request
        served = ServedCodeCheck(
            request.served, code=paths_here().code, entry_point=request.entry_point
        )
        served.check_dataset(request.dataset)
        self._functions = {
            what: self._at_home(name)
            for what, name in request.loader.items()
            if what in ("collate_fn", "sampler", "batch_sampler")
        }
        served.check(self._spec(1, **self._functions))
        self._source = LocalSource()
        self.described = self._source.describe(request.dataset)
        self.shards: int = request.loader.get("shards", 1)

    @property
    def collate_fn(self) -> str:
        """The loader's function that makes batches; "" for none."""
        return self._functions.get("collate_fn", "")

    @property
    def sampler(self) -> str:
        """The loader's sampler or batch_sampler; "" for none."""
        return self._functions.get("sampler") or self._functions.get("batch_sampler", "")

    @property
    def batch_size(self) -> int | None:
        """Samples of the batch that is read: the loader's, and no more than are asked for."""
        default = 1 if "batch_sampler" in self._functions else _BATCH_SIZE
        size = self._request.loader.get("batch_size", default)
        return None if size is None else min(size, self._request.samples)

    def samples(self) -> Generator[tuple[str, Parts], None, None]:
        """Yield the samples as they are read in order, each with its place.

        Those of the shards of an iterable dataset come in turn.
        """
        read: Counter[int] = Counter()
        for step, parts in self._batches(self._plan(self._spec(None, **self._sharded()))):
            shard = step.shard if isinstance(step, ShardBatch) else 0
            of_shard = f" of shard {shard}" if self.shards > 1 else ""
            yield f"sample {read[shard]}{of_shard}", parts
            read[shard] += 1

    def samples_again(self, count: int) -> list[BatchContent]:
        """Prepare the first samples; those of a map-style dataset from the last one on."""
        plan = self._plan(self._spec(None, **self._sharded()))
        if isinstance(plan, ShardPlan):
            with contextlib.closing(self._batches(plan)) as batches:
                pairs = zip(range(count), batches, strict=False)
                return [BatchContent.take(*parts, 1) for _, (_, parts) in pairs]
        found = [
            BatchContent.take(*self._source.load(plan, step), 1) for step in reversed(range(count))
        ]
        return found[::-1]

    def first_batch(self, *, collated: bool = True) -> Parts:
        """Prepare the first batch, or else the first sample."""
        spec = self._spec(None, **self._sharded())
        if collated:
            spec = self._spec(self.batch_size, **self._functions, **self._sharded())
        with contextlib.closing(self._batches(self._plan(spec))) as batches:
            return next((parts for _, parts in batches), (None, []))

    def in_random_order(self, size: int | None, seed: int) -> Generator[Parts, None, None]:
        """Yield batches, or samples if `size` is None; those of an iterable dataset as they come.

        A sampler of the loader is not used.
        """
        has_function = self.collate_fn and size is not None
        chosen: dict[str, Any] = {"collate_fn": self.collate_fn} if has_function else {}
        spec = self._spec(
            size, shuffle=not self.described.iterable, seed=seed, **chosen, **self._sharded()
        )
        with contextlib.closing(self._batches(self._plan(spec))) as batches:
            for _, parts in batches:
                yield parts

    def orders(self) -> dict[str, str]:
        """Return what a sampler gives in the first epochs, with the digest of each order."""
        if not self.sampler:
            return {}
        found = {}
        for epoch in _EPOCHS:
            plan = self._plan(self._spec(self.batch_size, **self._functions), epoch)
            assert isinstance(plan, BatchPlan)  # an iterable dataset with a sampler is refused
            plan.check_sampler()
            what = "batches" if plan.spec.batch_sampler else "samples"
            found[f"{self.sampler} gives {plan.length:,} {what} in epoch {epoch}"] = plan.digest
        return found

    # ---------------------------------------------------------------------------------------

    def _at_home(self, reference: str) -> str:
        """Return a function's reference in the dataset's module if that has it, as loaders do."""
        home = self._request.dataset.partition(":")[0]
        name = reference.partition(":")[2]
        return f"{home}:{name}" if hasattr(sys.modules.get(home), name) else reference

    def _sharded(self) -> dict[str, int]:
        return {"shards": self.shards}

    def _spec(self, batch_size: int | None, **arguments: Any) -> StreamSpec:
        name = self._request.dataset
        arguments["allow_pickle"] = bool(self._request.loader.get("allow_pickle"))
        return StreamSpec(name=name, dataset=name, batch_size=batch_size, verify=0, **arguments)

    def _plan(self, spec: StreamSpec, epoch: int = 0) -> BatchPlan | ShardPlan:
        start, length = ResumePoint(epoch=epoch), self.described.length
        if self.described.iterable:
            return plan_shards(spec, length, start, rank=0, world=1)
        return make_plan(spec, length or 0, start, rank=0, world=1)

    def _batches(
        self, plan: BatchPlan | ShardPlan
    ) -> Generator[tuple[int | ShardBatch, Parts], None, None]:
        """Yield the batches of a plan, disassembled as a data host sends them."""
        if isinstance(plan, ShardPlan):
            with contextlib.closing(self._source.batches(plan)) as batches:
                yield from batches
        else:
            for step in range(plan.steps):
                yield step, self._source.load(plan, step)

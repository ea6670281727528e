"""The loader's place in Accelerate's GradientState: the last step of an epoch, and its padding.

Accelerate ends an accumulation of gradients at the last step, and `gather_for_metrics` cuts off the
samples that repeat others, if the loader that is being read says so. Hugging Face's Trainer relies
on both.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

from launcher.data.order import BatchPlan, ShardPlan


class EpochEnd:
    """Accelerate's two attributes of a loader that is being read."""

    def __init__(self, plan: BatchPlan | ShardPlan) -> None:
        #: True while the last batch of the epoch is in use.
        self.end_of_dataloader = False
        #: Samples in an incomplete last step of all ranks, without those that repeat others;
        #: 0 if it is complete, -1 if unknown.
        self.remainder = _remainder(plan)
        self._steps = _steps(plan)

    def reach(self, number: int) -> None:
        """Record that batch `number` of this reading is returned."""
        self.end_of_dataloader = number + 1 == self._steps


def _steps(plan: BatchPlan | ShardPlan) -> int | None:
    if isinstance(plan, BatchPlan):
        return plan.steps
    return None if plan.steps is None else plan.steps - plan.first


def _remainder(plan: BatchPlan | ShardPlan) -> int:
    if isinstance(plan, ShardPlan):
        return -1
    return plan.last_size * plan.world - plan.pads


def _check_ranks(accelerate: ModuleType, plan: BatchPlan | ShardPlan) -> None:
    """Warn if Accelerate trains each rank on its own, as it does by default without a GPU."""
    if (
        plan.world > 1
        and accelerate.is_initialized()
        and accelerate.PartialState().num_processes == 1
    ):
        warnings.warn(
            f"{plan.world} ranks read {plan.spec.name}, and Accelerate trains one model in "
            "each: without a GPU, write Accelerator(cpu=True), or with Hugging Face's "
            "Trainer TrainingArguments(use_cpu=True)",
            stacklevel=2,
        )


@contextlib.contextmanager
def entered(plan: BatchPlan | ShardPlan) -> Iterator[EpochEnd | None]:
    """Enter a reading of an epoch into Accelerate's state; None when Accelerate is not loaded."""
    accelerate = sys.modules.get("accelerate.state")
    if accelerate is None:
        yield None
        return
    _check_ranks(accelerate, plan)
    state, end = accelerate.GradientState(), EpochEnd(plan)
    state._add_dataloader(end)
    try:
        yield end
    finally:
        state._remove_dataloader(end)

"""Batch norms when the batch is split over replicas and microbatches."""

from __future__ import annotations

import warnings

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext

#: Samples below which statistics of a batch are known to cost accuracy (Wu and He, "Group
#: Normalization", arXiv 1803.08494, figure 1).
_FEW = 16


def warn_of_few(model: nn.Module, samples: int) -> None:
    """Warn when batch norms see few samples at once."""
    norms = [name for name, each in model.named_modules() if isinstance(each, _BatchNorm)]
    if norms and samples < _FEW:
        warnings.warn(
            f"{norms[0]} and {len(norms) - 1} other batch norms see {samples} samples at once, "
            f"those of one microbatch of one replica; below {_FEW} this costs accuracy: use larger "
            "microbatches, group norm, or in data parallel training on GPUs synchronized()",
            stacklevel=3,
        )


def synchronized(model: nn.Module, world: ParallelContext) -> nn.Module:
    """Replace batch norms by torch.nn.SyncBatchNorm, over the batches of all replicas.

    Call it before `replicate`. Raises ParallelError for stages, whose microbatches it would not see
    together, and without GPUs, since torch supports it only there.
    """
    if world.degrees.pipeline > 1:
        raise ParallelError(
            f"batch norms of {world.degrees.pipeline} stages cannot be synchronized: each "
            "microbatch has statistics of its own; use group norm"
        )
    if world.device.type == "cpu":
        raise ParallelError("torch synchronizes batch norms on GPUs only: use group norm here")
    return nn.SyncBatchNorm.convert_sync_batchnorm(model, world.dp_group)

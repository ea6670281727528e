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


def warn_about_small_batches(model: nn.Module, samples: int) -> None:
    """Warn if batch norms see few samples at once."""
    norms = [name for name, each in model.named_modules() if isinstance(each, _BatchNorm)]
    if norms and samples < _FEW:
        warnings.warn(
            f"{norms[0]} and {len(norms) - 1} other batch norms compute statistics over {samples} "
            f"samples (one microbatch of one replica); fewer than {_FEW} cost accuracy: use larger "
            "microbatches, group norm, or synchronized() in data-parallel training on GPUs",
            stacklevel=3,
        )


def synchronized(model: nn.Module, world: ParallelContext) -> nn.Module:
    """Replace batch norms by torch.nn.SyncBatchNorm, over the batches of all replicas.

    Call it before `replicate`. Raises ParallelError for a pipeline, whose microbatches are
    normalized separately, and without GPUs, which torch requires.
    """
    if world.degrees.pipeline > 1:
        raise ParallelError(
            f"batch norms cannot be synchronized in a pipeline of {world.degrees.pipeline} stages, "
            "where each microbatch has its own statistics: use group norm"
        )
    if world.device.type == "cpu":
        raise ParallelError("torch synchronizes batch norms only on GPUs: use group norm")
    return nn.SyncBatchNorm.convert_sync_batchnorm(model, world.dp_group)

"""`amp.GradScaler`, with which all ranks skip the same steps."""

from __future__ import annotations

from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from launcher.parallel.precision import scaler
from launcher.parallel.smp.smp_session import session


def GradScaler(**options: object) -> ShardedGradScaler:  # noqa: N802 - smp's name
    """Return a scaler to use in place of torch.amp.GradScaler.

    options: passed to torch.amp.GradScaler, except the device.
    """
    return scaler(session().world, **options)

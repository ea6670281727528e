"""The data service: batches prepared on the data group, and the loader that reads them.

The public names are imported on first use, because workers and the dispatcher do not need the
loader.

The modules here are what a training script uses:

loader, loader_options          DataLoader, the public class, and LoaderOptions
given_code, torch_arguments     its arguments: datasets and functions, and those of torch's loader
loader_attributes, gradient_state   what training frameworks read from a loader
loader_state        resume points, saved and restored
epoch_recorder      steps and waits of one pass over an epoch
sources, service    batches from this process, or from the data service
keras, tf, ray      adapters, which nothing else imports

The packages are layers, and each may import those below it:

engines             ways to prepare batches away from the ranks: their interface and registry
dispatcher, worker, receiver    the processes of the data service (`python -m` runs them)
memory              shared memory between a receiver and the ranks of its host
metrics             counters, their publication and the bottleneck analysis
control             control messages between the processes
order               composition of batches: samples, seeds and resume points
batches             batches and their bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.batches import register_codec
    from launcher.data.given_code import describe_instance
    from launcher.data.loader import DataLoader
    from launcher.data.loader_options import LoaderOptions
    from launcher.data.loader_state import LoaderProgress, read_state, write_state
    from launcher.data.order import EPOCH, channel, shard
    from launcher.data.service import ServiceSource
    from launcher.data.sources import LocalSource

__all__ = ["EPOCH", "DataLoader", "LoaderOptions", "channel", "register_codec", "shard"]

__getattr__ = open_door(__name__)

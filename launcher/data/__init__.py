"""The data service: batches prepared on the data group, and the loader that reads them."""

from launcher.data.current_shard import shard
from launcher.data.loader import DataLoader

__all__ = ["DataLoader", "shard"]

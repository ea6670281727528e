"""Where a task's model is best cut, found in a process of the job world, which has torch.

partition = launcher.partition("task:make", partitions=4, microbatches=8)
partition.write(Path("partition.json"))
"""

from launcher.partitioner.partitioner import partition

__all__ = ["partition"]

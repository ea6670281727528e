"""Partitioning of a task's model in a job-world process, which has torch.

partition = launcher.partition("task:make", partitions=4, microbatches=8)
partition.write(Path("partition.json"))
"""

from launcher.partitioner.partitioner import partition

__all__ = ["partition"]

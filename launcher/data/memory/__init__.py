"""Shared memory for batches: slabs, and how a process of the same host looks at them."""

"""Shared memory for batches: slabs, and the access of processes on the same host to them."""

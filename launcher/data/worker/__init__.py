"""Data workers: processes that prepare batches, on data hosts and optionally on train hosts."""

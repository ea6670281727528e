"""Preparing batches: processes on the data hosts, and on train hosts when asked."""

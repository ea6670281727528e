"""Who prepares which batch: one process on the leader."""

"""The dispatcher: one process on the leader that decides which worker prepares which batch."""

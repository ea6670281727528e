"""Taking batches in: one process on each train host."""

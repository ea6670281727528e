"""The receiver: one process on each train host that receives batches."""

"""Data engines: what prepares the batches of a job, and how ranks read them."""

"""Other ways to bring batches to a trainer, each in its best honest configuration."""

"""The files of a local job: its channels, checkpoints and results, here and in S3."""

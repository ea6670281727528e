"""The stages that a rank holds: their arguments, schedules, gradients and shards."""

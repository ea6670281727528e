"""Everything that runs on your machine: describe, check, price, send and follow jobs."""

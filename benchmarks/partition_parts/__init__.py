"""The parts of benchmarks/partition.py: its rows, and what its ranks run."""

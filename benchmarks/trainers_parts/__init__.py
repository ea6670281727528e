"""The parts of benchmarks/trainers.py: how it measures, its rows, and what its ranks run."""

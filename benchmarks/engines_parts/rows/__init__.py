"""The rows of benchmarks/engines.py."""

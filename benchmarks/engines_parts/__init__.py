"""Parts of benchmarks/engines.py: the sides, what runs inside them, and the rows."""

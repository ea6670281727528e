"""What benchmarks say: figures with their targets, the table of them, and all values as JSON."""

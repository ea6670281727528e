"""The parts of benchmarks/data_service.py: how it measures, its rows, its peers, and our side."""

"""Metrics of the data service: counted per process, aggregated, published, and analysed."""

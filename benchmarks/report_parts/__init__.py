"""Parts of the benchmark of reports."""

"""Launcher: managed training jobs on heterogeneous clusters, and the same jobs on a laptop."""

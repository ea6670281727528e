"""The rows of gpu.py, what their ranks run, and the source of the jobs that they start."""

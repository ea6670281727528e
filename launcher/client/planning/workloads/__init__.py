"""Workloads: what a sample and a step cost, given, measured, or read from a job."""

"""Platforms that run jobs: the interface, and its implementations for AWS and this machine."""

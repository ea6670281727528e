"""The instance types that a training job may use: size, accelerators, and a dated price."""

from launcher.catalogue.instances import InstanceType, find, instance_types, near

__all__ = ["InstanceType", "find", "near", "instance_types"]

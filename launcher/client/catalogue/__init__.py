"""The instance types available to training jobs: size, accelerators and dated prices."""

from launcher.client.catalogue.instances import InstanceType, find, instance_types, near
from launcher.client.catalogue.prices import Price, PriceList, price_list

__all__ = ["InstanceType", "find", "near", "instance_types", "Price", "PriceList", "price_list"]

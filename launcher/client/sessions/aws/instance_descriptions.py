"""EC2's descriptions of instance types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.client.sessions.aws.clients import Clients


def describe_instance_types(region: str | None = None) -> tuple[str, list[Mapping[str, Any]]]:
    """Return a region (by default the configured one), and the types that EC2 has there.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
    Raises CloudError: without credentials or region, or if they may not ask.
    """
    clients = Clients(region)
    with clients.client("ec2") as ec2:
        pages = ec2.get_paginator("describe_instance_types").paginate()
        return clients.region, [each for page in pages for each in page["InstanceTypes"]]

"""EC2's descriptions of instance types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.response_check import foreign_response

#: A region has about ten pages of a hundred types each.
_MOST_PAGES = 100


def describe_instance_types(region: str | None = None) -> tuple[str, list[Mapping[str, Any]]]:
    """Return a region (by default the configured one), and the types that EC2 has there.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
    Raises CloudError: without credentials or region, if they may not ask, or for an answer that is
    not EC2's.
    """
    clients = Clients(region)
    with clients.client("ec2") as ec2:
        pages = ec2.get_paginator("describe_instance_types").paginate()
        found: list[Mapping[str, Any]] = []
        for number, page in enumerate(pages):
            if number >= _MOST_PAGES:
                raise foreign_response("DescribeInstanceTypes", f"has more than {number} pages")
            found += page["InstanceTypes"]
        return clients.region, found

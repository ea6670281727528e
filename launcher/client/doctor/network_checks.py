"""The job's own network: subnets of one VPC, and security groups that let the hosts communicate.

All hosts of a job have all of its security groups, so traffic passes when any of these allows it
out and any allows it in. Source: the page of SageMaker's docs on training jobs in a VPC.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import foreign_response, translate_errors
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Refused

_finding = partial(CheckSection.AWS.finding, "network")

#: Hosts listen on ports that the operating system assigns.
_FIRST_PORT, _LAST_PORT = 1024, 65535
_ALL = "-1"
_DIRECTIONS = {
    "IpPermissions": ("into", "from", "inbound"),
    "IpPermissionsEgress": ("out of", "to", "outbound"),
}


@dataclass(frozen=True, kw_only=True)
class _Network:
    """EC2's descriptions of the subnets and security groups that a job names."""

    subnets: list[Mapping[str, Any]]
    groups: list[Mapping[str, Any]]


def check(connection: Connection, spec: JobSpec) -> Iterator[CheckResult]:
    """Yield findings about the subnets and the security groups that a job names, if any."""
    if not spec.subnets or not spec.security_group_ids:
        return
    try:
        network = _read(connection, spec)
        found = [*_vpc_findings(network)]
        if sum(group.instance_count for group in spec.groups) > 1 and not found:
            found = [*_traffic_findings(network)]
    except Refused as error:
        yield _refused(error)
        return
    except CloudError as error:
        yield _finding(Level.WARNING, f"cannot be checked from here: {error.headline}")
        return
    yield from found or [_finding(Level.OK, _summary(network))]


def _read(connection: Connection, spec: JobSpec) -> _Network:
    with translate_errors():
        ec2 = connection.client("ec2")
        network = _Network(
            subnets=ec2.describe_subnets(SubnetIds=list(spec.subnets))["Subnets"],
            groups=ec2.describe_security_groups(GroupIds=list(spec.security_group_ids))[
                "SecurityGroups"
            ],
        )
    if not (network.subnets and network.groups):
        raise foreign_response("DescribeSubnets", "or DescribeSecurityGroups describes none")
    return network


def _refused(error: Refused) -> CheckResult:
    """Return a finding for an error of EC2.

    EC2 names what it does not find: "The subnet ID 'subnet-1' does not exist".
    """
    if str(error.code).endswith((".NotFound", "ID.Malformed", "Id.Malformed")):
        fix = "correct subnets and security_group_ids: ids of the job's region"
        return _finding(Level.PROBLEM, error.headline, fix)
    return _finding(Level.WARNING, f"cannot be checked from here ({error.headline})")


def _vpc_findings(network: _Network) -> Iterator[CheckResult]:
    places = {item["SubnetId"]: item["VpcId"] for item in network.subnets}
    places |= {item["GroupId"]: item["VpcId"] for item in network.groups}
    if len(set(places.values())) > 1:
        placement = ", ".join(f"{name} in {vpc}" for name, vpc in places.items())
        yield _finding(
            Level.PROBLEM,
            f"the job's network is not in one VPC: {placement}",
            "use subnets and security groups of the same VPC",
        )


def _traffic_findings(network: _Network) -> Iterator[CheckResult]:
    own = {group["GroupId"] for group in network.groups}
    blocks = [_block(subnet.get("CidrBlock")) for subnet in network.subnets]
    for direction, (way, other, rule) in _DIRECTIONS.items():
        permissions = [part for group in network.groups for part in group.get(direction, ())]
        if not any(_covers(part, own, blocks) for part in permissions):
            named = ", ".join(sorted(own))
            yield _finding(
                Level.PROBLEM,
                f"{named}: no rule allows traffic {way} a host {other} the other hosts of the job, "
                "so they would wait for each other forever",
                f"add an {rule} rule to {min(own)}: all traffic {other} {min(own)} itself",
            )


def _covers(
    permission: Mapping[str, Any], own: Iterable[str], blocks: Iterable[ipaddress.IPv4Network]
) -> bool:
    """Return True if one rule admits all hosts of the job on every port they may listen on."""
    if permission["IpProtocol"] not in (_ALL, "tcp"):
        return False
    if permission["IpProtocol"] == "tcp" and (
        permission.get("FromPort", _LAST_PORT) > _FIRST_PORT
        or permission.get("ToPort", 0) < _LAST_PORT
    ):
        return False
    partners = {pair.get("GroupId") for pair in permission.get("UserIdGroupPairs", ())}
    ranges = [_block(part.get("CidrIp")) for part in permission.get("IpRanges", ())]
    return bool(partners & set(own)) or all(
        any(block.subnet_of(wide) for wide in ranges) for block in blocks
    )


def _block(text: object) -> ipaddress.IPv4Network:
    """Return a block of addresses; raise Unreachable for what is none."""
    try:
        return ipaddress.IPv4Network(str(text))
    except ValueError as error:
        raise foreign_response("EC2", f"has the block of addresses {text!r:.40}") from error


def _summary(network: _Network) -> str:
    (vpc,) = {item["VpcId"] for item in network.subnets}
    return f"{vpc}: {len(network.subnets)} subnets, and the hosts can reach each other"

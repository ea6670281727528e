"""Replace the catalogue's instance types by what EC2 describes, in the user's Launcher home."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from launcher.client import catalogue
from launcher.client.catalogue import InstanceType, packaged_types, types_table, updated_instances
from launcher.client.home import writing
from launcher.client.sessions import Clients, foreign_response
from launcher.errors import Refused
from launcher.shared import write_complete

#: A region has about ten pages of a hundred types each.
_MOST_PAGES = 100
_STATED = re.compile(r"(?:(?P<cards>\d+)x )?(?P<gbps>[\d.]+) Gigabit")
#: Version of NeuronCores of which two are one logical core by default.
_LOGICAL_CORES = 3


@dataclass(frozen=True, kw_only=True)
class CatalogueTypeUpdate:
    """The instance types that EC2 described in a region; new: those that Launcher did not have."""

    region: str
    count: int
    new: tuple[str, ...]
    file: Path


def update_catalogue_types(region: str | None, today: date) -> CatalogueTypeUpdate:
    """Ask EC2 for its instance types, and store those of SageMaker.

    A type is SageMaker's if it is in Launcher's table or has a price for training. The old types
    stay if this raises: CloudError for EC2, PlatformError for a file that cannot be written.
    """
    asked, described = _describe_types(region)
    prices = catalogue.price_list()
    own = packaged_types()
    types = _by_name(_type(each, today) for each in described)
    kept = [each for each in types if each.name in own or prices.find(each.name, asked)]
    if not kept:
        raise Refused(f"EC2 describes no instance type of SageMaker in {asked}")
    file = updated_instances()
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_complete(file, types_table(kept))
    new = tuple(each.name for each in kept if each.name not in own)
    return CatalogueTypeUpdate(region=asked, count=len(kept), new=new, file=file)


def _by_name(types: Iterable[InstanceType]) -> Iterable[InstanceType]:
    """Return each type once; a page may repeat one of the page before."""
    found: dict[str, InstanceType] = {}
    for each in types:
        if found.setdefault(each.name, each) != each:
            raise Refused(f"EC2 describes {each.name} twice, with different figures")
        known = packaged_types().get(each.name)
        if known and known.accelerators and not each.accelerators:
            raise Refused(
                f"EC2's description of {each.name} lacks its {known.accelerators} x "
                f"{known.accelerator_name}"
            )
    return found.values()


def _type(described: Mapping[str, Any], today: date) -> InstanceType:
    try:
        return described_type(described, f"ec2-api@{today.isoformat()}")
    except KeyError as error:
        name = f"ml.{described['InstanceType']}" if "InstanceType" in described else "a type"
        raise Refused(f"EC2's description of {name} lacks {error}") from error


def _describe_types(region: str | None = None) -> tuple[str, list[Mapping[str, Any]]]:
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


def described_type(described: Mapping[str, Any], source: str) -> InstanceType:
    """Return the type of one entry of `InstanceTypes`, with the "ml." of SageMaker before its name.

    Raises KeyError if the entry lacks a name, its vCPUs or its memory.
    """
    network = described.get("NetworkInfo", {})
    cards = network.get("NetworkCards", [])
    stated = _stated_gbps(network.get("NetworkPerformance", ""))
    return InstanceType(
        name=f"ml.{described['InstanceType']}",
        vcpu=described["VCpuInfo"]["DefaultVCpus"],
        memory_gib=_gib(described["MemoryInfo"]),
        nvme_gb=described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        network_gbps=stated or _sum(cards, "BaselineBandwidthInGbps"),
        network_burst_gbps=stated or _sum(cards, "PeakBandwidthInGbps"),
        network_cards=len(cards) or None,
        source=source,
        **_accelerators(described),
    )


def _accelerators(described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures of the first kind of accelerator; no training type has two kinds."""
    gpus = described.get("GpuInfo", {}).get("Gpus", [])
    chips = described.get("NeuronInfo", {}).get("NeuronDevices", [])
    devices = gpus or chips
    if not devices:
        return _fields(0, None, None, 0)
    device = devices[0]
    maker = device.get("Manufacturer") or "AWS"
    cores = _processes(device.get("CoreInfo", {}))
    memory = round(_gib(device["MemoryInfo"]), 2) if "MemoryInfo" in device else None
    return _fields(device["Count"], f"{maker} {device['Name']}", memory, cores)


def _processes(cores: Mapping[str, Any]) -> int:
    """Return the processes of one accelerator: two of its cores share one from NeuronCore-v3 on.

    That is the default of Neuron's logical cores:
    https://awsdocs-neuron.readthedocs-hosted.com/en/latest/training/best-practices.html
    """
    count = int(cores.get("Count", 1))
    return count // 2 if cores.get("Version", 0) >= _LOGICAL_CORES else count


def _fields(count: int, name: str | None, memory: float | None, cores: int) -> dict[str, Any]:
    return {
        "accelerators": count,
        "accelerator_name": name,
        "accelerator_memory_gib": memory,
        "accelerator_cores": cores,
    }


def _gib(memory: Mapping[str, Any]) -> float:
    return float(memory["SizeInMiB"]) / 1024


def _stated_gbps(performance: str) -> float | None:
    """Return the bandwidth of "400 Gigabit" or "4x 100 Gigabit"; None for "Up to 10 Gigabit".

    Where it is stated, it holds: cards of G6e and P6 add up to others (moto 5.2.5).
    """
    found = _STATED.fullmatch(performance)
    return float(found["gbps"]) * int(found["cards"] or 1) if found else None


def _sum(cards: Sequence[Mapping[str, Any]], field: str) -> float | None:
    """Return the sum over all network cards; None if one of them does not have the figure."""
    figures = [card.get(field) for card in cards]
    known = [float(each) for each in figures if each is not None]
    return round(sum(known), 3) if known and len(known) == len(figures) else None

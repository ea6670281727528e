"""The catalogue's figures in an answer of EC2's DescribeInstanceTypes.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceTypeInfo.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.client.catalogue.instances import InstanceType

_STATED = re.compile(r"(?:(?P<cards>\d+)x )?(?P<gbps>[\d.]+) Gigabit")
#: Version of NeuronCores of which two are one logical core by default.
_LOGICAL_CORES = 3


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

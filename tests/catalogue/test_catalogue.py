"""The instance types, held against what AWS's own tools know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import botocore
import botocore.loaders
import pytest
from moto.utilities.utils import load_resource

from launcher.client import catalogue
from launcher.client.planning import described_type

FAMILIES = {"c5", "c6i", "c7i", "m4", "m5", "g4dn", "g5", "g6", "p3", "p4d", "p5", "trn1"}
LOCAL = {"local", "local_gpu"}
#: moto does not describe these: AWS has retired them from EC2, or never offers them alone.
UNDESCRIBED = {
    *(f"ml.p2.{size}" for size in ("xlarge", "8xlarge", "16xlarge")),
    *(f"ml.p3.{size}" for size in ("2xlarge", "8xlarge", "16xlarge")),
    "ml.p6e-gb200.36xlarge",
}
#: EC2 and Neuron's documentation differ about the memory of a chip.
DOUBTFUL_MEMORY = {"ml.trn2.48xlarge"}


@pytest.fixture(scope="module")
def ec2_types() -> Mapping[str, Mapping[str, Any]]:
    """What moto says of them, read without its EC2, which takes seconds to import."""
    types = load_resource("ec2/resources/instance_types.json")
    return {f"ml.{name}": described for name, described in types.items()}


def test_every_family_of_the_examples_is_there() -> None:
    known = {name.split(".")[1] for name in catalogue.instance_types() if name not in LOCAL}

    assert known >= FAMILIES


def test_the_catalogue_has_every_type_that_sagemaker_trains_on_and_no_other() -> None:
    model = botocore.loaders.Loader().load_service_model("sagemaker", "service-2")

    types = set(catalogue.instance_types()) - LOCAL
    known_here = set(model["shapes"]["TrainingInstanceType"]["enum"])
    if botocore.__version__ >= "1.44.8":
        assert types == known_here
    else:
        assert types >= known_here  # an older botocore has fewer


DESCRIBED = sorted(set(catalogue.instance_types()) - LOCAL - UNDESCRIBED)


def test_sizes_are_those_that_ec2_describes(ec2_types: Mapping[str, Mapping[str, Any]]) -> None:
    for name in DESCRIBED:
        ours, theirs = catalogue.find(name), ec2_types[name]
        assert ours is not None
        assert (ours.vcpu, ours.memory_gib, ours.nvme_gb, ours.has_local_storage) == (
            theirs["VCpuInfo"]["DefaultVCpus"],
            theirs["MemoryInfo"]["SizeInMiB"] / 1024,
            theirs.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
            theirs["InstanceStorageSupported"],
        ), name
        assert (
            ours.accelerators,
            ours.accelerator_name,
            ours.accelerator_memory_gib,
            ours.accelerator_cores,
        ) == pytest.approx(_accelerators(theirs, has_memory=name not in DOUBTFUL_MEMORY), abs=0.01)


def test_the_lines_of_the_catalogue_are_made_from_the_answer_of_ec2(
    ec2_types: Mapping[str, Mapping[str, Any]],
) -> None:
    made = {name: described_type(ec2_types[name], "ec2") for name in DESCRIBED}
    for name in DOUBTFUL_MEMORY:
        made[name] = replace(made[name], accelerator_memory_gib=None)

    assert {name: catalogue.find(name) for name in DESCRIBED} == made


def test_the_network_is_that_of_all_cards_and_a_connection_uses_one(
    ec2_types: Mapping[str, Mapping[str, Any]],
) -> None:
    p4d = described_type(ec2_types["ml.p4d.24xlarge"], "ec2")
    c5 = described_type(ec2_types["ml.c5.xlarge"], "ec2")

    assert (p4d.network_gbps, p4d.network_cards, p4d.card_gbps) == (400, 4, 100)
    assert (c5.network_gbps, c5.network_burst_gbps, c5.card_gbps) == (1.25, 10, 1.25)


def test_the_bandwidth_that_ec2_states_holds_against_the_sum_of_the_cards(
    ec2_types: Mapping[str, Mapping[str, Any]],
) -> None:
    p6 = described_type(ec2_types["ml.p6-b200.48xlarge"], "ec2")

    assert (p6.network_gbps, p6.network_cards, p6.card_gbps) == (3200, 8, 400)


def test_a_figure_that_ec2_leaves_out_is_unknown_and_not_made_up() -> None:
    bare = {"InstanceType": "x1.large", "VCpuInfo": {"DefaultVCpus": 2}}
    described = described_type({**bare, "MemoryInfo": {"SizeInMiB": 4096}}, "ec2")

    assert (described.name, described.vcpu, described.memory_gib) == ("ml.x1.large", 2, 4)
    assert (described.network_gbps, described.network_cards, described.card_gbps) == (None,) * 3
    with pytest.raises(KeyError):
        described_type(bare, "ec2")


def _accelerators(theirs: Mapping[str, Any], *, has_memory: bool) -> tuple[Any, ...]:
    if "GpuInfo" in theirs:
        (gpu,) = theirs["GpuInfo"]["Gpus"]
        memory = gpu["MemoryInfo"]["SizeInMiB"] / 1024
        return gpu["Count"], f"{gpu['Manufacturer']} {gpu['Name']}", memory, 1
    if "NeuronInfo" in theirs:
        (chip,) = theirs["NeuronInfo"]["NeuronDevices"]
        memory = chip["MemoryInfo"]["SizeInMiB"] / 1024
        known = memory if has_memory else None
        per_process = 2 if chip["Name"] == "Trainium2" else 1
        return chip["Count"], f"AWS {chip['Name']}", known, chip["CoreInfo"]["Count"] // per_process
    return 0, None, None, 0


def test_the_retired_types_keep_what_aws_said_of_them() -> None:
    p3 = [catalogue.find(f"ml.p3.{size}xlarge") for size in (2, 8, 16)]

    assert [(t.vcpu, t.memory_gib, t.accelerators) for t in p3 if t] == [
        (8, 61, 1),
        (32, 244, 4),
        (64, 488, 8),
    ]
    assert {t.has_local_storage for t in p3 if t} == {False}


def test_a_trn2_has_a_rank_per_logical_core_and_a_trn1_per_core() -> None:
    types = [catalogue.find(f"ml.{name}xlarge") for name in ("trn1.32", "trn2.48")]

    assert [each.processes for each in types if each] == [32, 64]


def test_a_local_type_has_what_this_machine_has() -> None:
    local, local_gpu = catalogue.find("local"), catalogue.find("local_gpu")

    assert local is not None
    assert local_gpu is not None
    assert (local.vcpu, local.memory_gib, local.accelerators, local.processes) == (None, None, 0, 1)
    assert (local_gpu.accelerators, local_gpu.processes) == (1, 1)


def test_an_unknown_type_is_none() -> None:
    assert catalogue.find("ml.c5.3xlarge") is None


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("c5.2xlarge", "ml.c5.2xlarge"),
        ("ml.c5.2xlrge", "ml.c5.2xlarge"),
        ("ml.g4nd.xlarge", "ml.g4dn.xlarge"),
        ("ML.P4D.24XLARGE", "ml.p4d.24xlarge"),
        ("Local", "local"),
    ],
)
def test_a_misspelled_type_has_a_near_one(written: str, nearest: str) -> None:
    assert catalogue.near(written)[0] == nearest


def test_what_looks_like_nothing_has_none() -> None:
    assert catalogue.near("a big one") == ()

"""What AWS's images set in their own start script, and a host of ours sets instead of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts

from launcher.runtime import EFA_TYPES, RDMA_TYPES, compatibility_variables, network_variables

EFA = {"FI_PROVIDER": "efa"}
RDMA = {**EFA, "FI_EFA_USE_DEVICE_RDMA": "1", "RDMAV_FORK_SAFE": "1"}
SOCKETS = {"NCCL_IB_DISABLE": "1"}


# The network -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance_type", "fabric"),
    [
        ("ml.c5.2xlarge", SOCKETS),
        ("ml.g4dn.xlarge", SOCKETS),
        ("ml.g5.24xlarge", SOCKETS),
        ("local", SOCKETS),
        ("ml.g4dn.12xlarge", EFA),
        ("ml.g5.48xlarge", EFA),
        ("ml.p3dn.24xlarge", EFA),
        ("ml.p5.48xlarge", EFA),
        ("ml.p4d.24xlarge", RDMA),
        ("ml.trn1.32xlarge", RDMA),
    ],
)
def test_the_fabric_is_that_of_the_instance_type(instance_type, fabric):
    variables = network_variables("eth0", instance_type, ["lo", "eth0"])
    assert variables == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "NCCL_DEBUG": "WARN",
        **fabric,
    }


def test_every_type_that_writes_into_other_memory_has_the_fabric():
    assert RDMA_TYPES < EFA_TYPES


def test_an_interface_that_is_not_there_is_not_named():
    variables = network_variables("eth0", "ml.c5.xlarge", ["lo", "ens5"])
    assert not any(name.endswith("_IFNAME") for name in variables)


# CUDA's forward compatibility ------------------------------------------------------------------


def cuda(tmp_path: Path, driver: str | None, library: str | None, inherited: str = ""):
    folder, version = tmp_path / "compat", tmp_path / "version"
    folder.mkdir()
    if library is not None:
        (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{library}")
    if driver is not None:
        version.write_text(
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Aug  1 11:18:51 UTC\n"
            "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
        )
    found = compatibility_variables(inherited, folder, version).get("LD_LIBRARY_PATH")
    return found and found.replace(str(folder), "COMPAT")


@pytest.mark.parametrize(
    ("driver", "library", "path"),
    [
        pytest.param("535.183.01", "550.54.15", "COMPAT", id="older driver"),
        pytest.param("550.54.14", "550.54.15", "COMPAT", id="older in its last number"),
        pytest.param("99.1.2", "550.54.15", "COMPAT", id="numbers, not letters, are compared"),
        pytest.param("550.54.15", "550.54.15", None, id="same driver"),
        pytest.param("570.86.10", "550.54.15", None, id="newer driver"),
        pytest.param(None, "550.54.15", None, id="no driver"),
        pytest.param("535.183.01", None, None, id="no library"),
        pytest.param("unknown", "550.54.15", None, id="no version"),
    ],
)
def test_the_compatibility_library_is_for_drivers_older_than_it(tmp_path, driver, library, path):
    assert cuda(tmp_path, driver, library) == path


def test_the_compatibility_library_comes_before_what_is_there(tmp_path):
    assert cuda(tmp_path, "535.1", "550.1", "/opt/amazon/lib:/usr/lib") == (
        "COMPAT:/opt/amazon/lib:/usr/lib"
    )


def test_the_compatibility_library_is_not_added_twice(tmp_path):
    inherited = f"/first:{tmp_path / 'compat'}"
    assert cuda(tmp_path, "535.1", "550.1", inherited) is None


# A rank ----------------------------------------------------------------------------------------

SHOW = """
import os
for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_DEBUG"):
    print("saw", name, os.environ.get(name))
"""


def test_a_rank_sees_them_and_the_users_own_values_win(make_hosts: Callable[..., Hosts]):
    hosts = make_hosts({"train.py": SHOW}, environment={"NCCL_DEBUG": "INFO"})
    hosts.run()
    saw = [line for line in hosts["algo-1"].output.splitlines() if line.startswith("saw")]
    assert saw == [
        "saw GLOO_SOCKET_IFNAME lo",
        "saw NCCL_SOCKET_IFNAME lo",
        "saw NCCL_IB_DISABLE 1",
        "saw NCCL_DEBUG INFO",
    ]

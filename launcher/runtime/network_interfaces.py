"""Variables of the communication libraries: the network interface and EFA settings.

AWS's images set them in their own start script and toolkit, which our jobs do not run. Sources: the
lists of EFA types in sagemaker-training 5.1.4 (params.py), _set_nccl_environment of
sagemaker-pytorch-training, and torchrun_driver.py of the SageMaker SDK v3.
"""

from __future__ import annotations

from collections.abc import Collection

#: Types for which AWS's toolkit enables the Elastic Fabric Adapter.
EFA_TYPES = frozenset(
    {
        "ml.g4dn.8xlarge",
        "ml.g4dn.12xlarge",
        "ml.g5.48xlarge",
        "ml.p3dn.24xlarge",
        "ml.p4d.24xlarge",
        "ml.p4de.24xlarge",
        "ml.p5.48xlarge",
        "ml.p6e-gb200.36xlarge",
        "ml.trn1.32xlarge",
    }
)
#: Of these, the types whose devices support RDMA; elsewhere requesting it aborts. On newer types
#: libfabric detects it.
RDMA_TYPES = frozenset({"ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.trn1.32xlarge"})

_SOCKET_LIBRARIES = ("GLOO", "NCCL", "TP")


def network_variables(
    interface: str, instance_type: str, present: Collection[str]
) -> dict[str, str]:
    """Return defaults for a host's processes; the user's environment overrides them.

    interface: `network_interface_name` of resourceconfig.json.
    present: the interfaces that exist. A library that is given a missing one fails; without a
        setting it finds one itself.
    """
    names = {f"{library}_SOCKET_IFNAME": interface for library in _SOCKET_LIBRARIES}
    return {
        **(names if interface in present else {}),
        **_fabric_variables(instance_type),
        "NCCL_DEBUG": "WARN",
    }


def _fabric_variables(instance_type: str) -> dict[str, str]:
    if instance_type not in EFA_TYPES:
        return {"NCCL_IB_DISABLE": "1"}  # else NCCL looks for InfiniBand, which EC2 lacks
    remote = {"FI_EFA_USE_DEVICE_RDMA": "1", "RDMAV_FORK_SAFE": "1"}
    return {"FI_PROVIDER": "efa", **(remote if instance_type in RDMA_TYPES else {})}

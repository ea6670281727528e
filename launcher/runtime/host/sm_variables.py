"""The environment of a host's child processes, with every SM_* variable of SageMaker's toolkit.

Names, formats and spellings follow sagemaker-training 5.1.4.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from launcher.runtime.host import hyperparameters
from launcher.runtime.host.environment import Environment
from launcher.shared import (
    CHECKPOINT_VARIABLE,
    CODE_CHANNEL,
    HOST_ADDRESS_VARIABLE,
    HOSTS_VARIABLE,
    Role,
    visible_gpus,
)


def toolkit_variables(environment: Environment) -> dict[str, str]:
    """Return the toolkit's variables for this host's child processes."""
    values = _toolkit_values(environment)
    variables = {f"SM_{name.upper()}": _encode(value) for name, value in values.items()}
    variables |= {
        f"SM_CHANNEL_{name.upper()}": path for name, path in _channel_folders(environment).items()
    }
    variables |= {
        f"SM_HP_{name.upper()}": _encode(value)
        for name, value in environment.hyperparameters.items()
    }
    variables["SM_TRAINING_ENV"] = _encode(_training_env(environment, values))
    variables |= {
        "CURRENT_HOST": environment.cluster.host,
        "SAGEMAKER_JOB_NAME": environment.job_name,
        "SAGEMAKER_REGION": environment.region,
    }
    return variables


def address_variables(environment: Environment) -> dict[str, str]:
    """Return the addresses of every group and the address that this host's servers bind.

    Groups whose names differ only in punctuation or case would share a variable's name, so none of
    them gets one.
    """
    cluster = environment.cluster
    hosts = {
        group.name: [cluster.address(host) for host in group.hosts] for group in cluster.groups
    }
    names = {group: re.sub(r"[^A-Z0-9]", "_", group.upper()) for group in hosts}
    shared = Counter(names.values())
    return {
        HOSTS_VARIABLE: json.dumps(hosts),
        HOST_ADDRESS_VARIABLE: cluster.bind_address,
        **{
            f"{HOSTS_VARIABLE}_{name}": ",".join(hosts[group])
            for group, name in names.items()
            if shared[name] == 1
        },
    }


def _toolkit_values(environment: Environment) -> dict[str, Any]:
    """Return the toolkit's values by its names; hosts are in the platform's lexicographic order."""
    cluster, paths = environment.cluster, environment.paths
    script = environment.document.trainer.entry_point
    distribution = environment.distribution_group
    groups = {
        group.name: {
            "instance_group_name": group.name,
            "instance_type": group.instance_type,
            "hosts": sorted(group.hosts),
        }
        for group in cluster.groups
    }
    values = environment.hyperparameters
    decoded = hyperparameters.decode(environment.raw_hyperparameters, {})
    return {
        "hosts": sorted(cluster.hosts),
        "current_host": cluster.host,
        "current_instance_type": cluster.group.instance_type,
        "current_instance_group": cluster.group.name,
        "current_instance_group_hosts": sorted(cluster.group.hosts),
        "instance_groups": list(groups),
        "instance_groups_dict": groups,
        "distribution_instance_groups": [distribution.name] if distribution else [],
        "is_hetero": len(groups) > 1,
        "network_interface_name": cluster.interface,
        "hps": values,
        "user_args": hyperparameters.as_arguments(values),
        "channels": sorted(_channel_folders(environment)),
        "input_dir": str(paths.input),
        "input_config_dir": str(paths.config),
        "input_data_config": _user_channels(environment),
        "model_dir": str(paths.model),
        "output_dir": str(paths.output),
        "output_data_dir": str(paths.output_data),
        "output_intermediate_dir": str(paths.output_intermediate),
        "num_cpus": environment.cpus,
        "num_gpus": count_gpus(),
        "num_neurons": count_neurons(),
        "log_level": 20,
        "module_name": script.removesuffix(".py"),
        "module_dir": str(paths.code),
        "user_entry_point": script,
        "framework_module": None,
        "framework_params": hyperparameters.for_framework(decoded),
        "resource_config": dict(environment.resource_config),
    }


def _training_env(environment: Environment, values: Mapping[str, object]) -> dict[str, Any]:
    """Return the properties of the toolkit's Environment, by their names there."""
    renamed = {
        "hyperparameters": values["hps"],
        "additional_framework_parameters": values["framework_params"],
    }
    others = {
        name: value
        for name, value in values.items()
        if name not in ("hps", "framework_params", "user_args", "channels")
    }
    distribution = environment.distribution_group
    return {
        **others,
        **renamed,
        "channel_input_dirs": _channel_folders(environment),
        "distribution_hosts": sorted(distribution.hosts) if distribution else [],
        "is_master": environment.cluster.host == environment.master,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": environment.job_name,
        "master_hostname": environment.master,
        "topology": environment.resource_config.get("topology", []),
    }


def _user_channels(environment: Environment) -> dict[str, Any]:
    return {
        name: dict(config)
        for name, config in environment.input_data_config.items()
        if name != CODE_CHANNEL
    }


def _channel_folders(environment: Environment) -> dict[str, str]:
    return {name: str(environment.paths.channels / name) for name in _user_channels(environment)}


def _encode(value: object) -> str:
    """Encode like the toolkit's mapping.to_env_vars: texts verbatim, None empty, the rest JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def count_gpus() -> int:
    """Return the number of GPUs that this host's programs see."""
    return len(visible_gpus(os.environ))


def count_neurons() -> int:
    """Return the number of Trainium cores present on this host."""
    if shutil.which("neuron-ls") is None:
        return 0
    listing = subprocess.run(["neuron-ls", "-j"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        return 0
    return sum(device.get("nc_count", 0) for device in json.loads(listing.stdout))


def child_environment(environment: Environment) -> dict[str, str]:
    """Return the environment of this host's child processes.

    Each Python among them has the user's code on its path, below the names of the standard library
    and our own: see python_start.
    """
    inherited = os.environ.get("PYTHONPATH", "")
    library = environment.paths.library
    start = library / "launcher" / "runtime" / "python_start"
    paths = [str(start), str(library), inherited, *stand_ins()]
    return {
        "PYTHONHASHSEED": "0",  # sets of str have one order in all of them
        **_thread_variables(environment),
        **_network_variables(environment),
        **os.environ,
        **compatibility_variables(os.environ.get("LD_LIBRARY_PATH", "")),
        **toolkit_variables(environment),
        **_checkpoint_variable(environment),
        **address_variables(environment),
        "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(paths))),
        "PYTHONUNBUFFERED": "1",
    }


def stand_ins() -> list[str]:
    """Return the folder of what stands in for the toolkit; none where that is installed."""
    is_installed = importlib.util.find_spec("sagemaker_training") is not None
    return [] if is_installed else [str(Path(__file__).parents[1] / "stand_ins")]


def _checkpoint_variable(environment: Environment) -> dict[str, str]:
    folder = environment.checkpoint_folder
    return {} if folder is None else {CHECKPOINT_VARIABLE: str(folder)}


def _network_variables(environment: Environment) -> dict[str, str]:
    cluster = environment.cluster
    present = [name for _, name in socket.if_nameindex()]
    return network_variables(cluster.interface, cluster.group.instance_type, present)


def _thread_variables(environment: Environment) -> dict[str, str]:
    """Limit OpenMP to one thread per process if processes share a host, as torchrun does.

    The same holds if hosts share a machine, so that sums on CPU do not depend on the number of
    hosts.
    """
    is_plain = environment.cluster.group.role is Role.SCRIPT and not environment.starts_ranks
    processes = 1 if is_plain else environment.document.trainer.processes_per_host
    shared = processes > 1 or environment.shares_machine
    return {"OMP_NUM_THREADS": "1"} if shared else {}


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


#: The image's CUDA driver library, which AWS's images use where the host's driver is older. Source:
#: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html
COMPATIBILITY = Path("/usr/local/cuda/compat")
DRIVER_VERSION = Path("/proc/driver/nvidia/version")

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def compatibility_variables(
    inherited: str, folder: Path = COMPATIBILITY, driver: Path = DRIVER_VERSION
) -> dict[str, str]:
    """Return LD_LIBRARY_PATH with the compatibility library first, if the host's driver needs it.

    inherited: LD_LIBRARY_PATH as it is. The result is empty if there is no driver or no such
        library, or if the driver is new enough: the library would then keep programs from using the
        GPU.
    """
    installed, needed = _driver_version(driver), _library_version(folder / "libcuda.so.1")
    paths = [path for path in inherited.split(os.pathsep) if path]
    if not installed or not needed or installed >= needed or str(folder) in paths:
        return {}
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(folder), *paths])}


def _driver_version(path: Path) -> tuple[int, ...]:
    """Parse the line "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  ..."."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ()
    line = next((line for line in lines if line.startswith("NVRM")), "")
    return _numbers(line.partition("Module")[2])


def _library_version(link: Path) -> tuple[int, ...]:
    """Return the version in the target of the link, libcuda.so.<version of its driver>."""
    try:
        return _numbers(link.readlink().name.rpartition("libcuda.so.")[2])
    except OSError:
        return ()


def _numbers(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()

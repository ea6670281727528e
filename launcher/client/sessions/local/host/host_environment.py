"""The environment of a host: the variables of a training container, and none of the caller's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.host_network import HostNetwork
from launcher.client.sessions.local.host.host_python import HostPython
from launcher.client.sessions.local.host.overlay import Overlay
from launcher.client.sessions.local.host.process_tree import HOST_VARIABLE
from launcher.client.sessions.local.job.job_folder import Settings
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.shared import (
    ADDRESSES_VARIABLE,
    CPUS_VARIABLE,
    HOST_FAILURE_VARIABLE,
    PORT_BASE_VARIABLE,
    REQUIREMENTS_VARIABLE,
    HostFailure,
)

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def host_environment(
    request: TrainingJobRequest,
    hosts: Sequence[LocalHost],
    network: HostNetwork,
    host_folder: Path,
    settings: Settings,
    interpreter: HostPython,
    overlay: Overlay | None,
    gpus: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables of a host; `host_folder` identifies its processes.

    interpreter: the Python in which it runs. overlay: the packages of the host's requirements.
    gpus: the variable that names its GPUs, which the job's own overrides.
    """
    name = request["TrainingJobName"]
    return {
        # or else the engine sees a program's lines when it ends
        **(
            {"PYTHONUNBUFFERED": "1"}
            if settings.container
            else _image_variables(interpreter, overlay)
        ),
        **gpus,
        **request.get("Environment", {}),
        "TRAINING_JOB_NAME": name,
        "TRAINING_JOB_ARN": settings.arn(name),
        "AWS_REGION": settings.region,
        **_shared_network(hosts, network),
        **_requirements_variable(overlay, settings),
        CPUS_VARIABLE: str(_fair_share(len(hosts))),
        **_host_failure_variable(settings.host_failure),
        HOST_VARIABLE: str(host_folder),
    }


def _image_variables(interpreter: HostPython, overlay: Overlay | None) -> dict[str, str]:
    """Return what an image would set; the same values as in AWS's framework images."""
    return {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "UTF-8",
        "PATH": _search_path(interpreter, overlay),
    }


def _search_path(interpreter: HostPython, overlay: Overlay | None) -> str:
    """Return PATH: the programs of the host's packages, of its Python, and the system's."""
    own = [] if overlay is None else [str(overlay.programs)]
    return ":".join([*own, interpreter.programs, _SYSTEM_PATH])


def _requirements_variable(overlay: Overlay | None, settings: Settings) -> dict[str, str]:
    """Return the variable that keeps a host from running pip; none for a host without need."""
    if not settings.install:
        return {REQUIREMENTS_VARIABLE: "not-installed"}
    return {} if overlay is None else {REQUIREMENTS_VARIABLE: "installed"}


def _shared_network(hosts: Sequence[LocalHost], network: HostNetwork) -> dict[str, str]:
    """Return the variables for hosts that share one network stack; others need none.

    Hosts with a network stack of their own find names and ports as on SageMaker.
    """
    if network.port_base is None:
        return {}
    return {
        ADDRESSES_VARIABLE: json.dumps({host.name: host.address for host in hosts}),
        PORT_BASE_VARIABLE: str(network.port_base),
    }


def _host_failure_variable(host_failure: HostFailure) -> dict[str, str]:
    """Return the variable for tolerated host failures; none by default."""
    is_default = host_failure is HostFailure.FAIL
    return {} if is_default else {HOST_FAILURE_VARIABLE: host_failure.value}


def _fair_share(hosts: int) -> int:
    """Return the number of this machine's CPUs for each host, at least one."""
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, usable // hosts)

"""Levels of isolation between the hosts of a local job; `isolation` implements them."""

from __future__ import annotations

import enum


class Isolation(str, enum.Enum):
    """The isolation between the hosts of a job.

    PROCESS: its own process tree and folders; /opt/ml is elsewhere, and hosts use peer addresses.
    SANDBOX: also its own /opt/ml, /etc/hosts, host name, process table, /tmp and /dev/shm.
    NETWORK: also its own network stack with an eth0; nothing outside of the job can be reached.
    CONTAINER: a container of Docker or Podman, which runs the image that the request names.
    """

    PROCESS = "process"
    SANDBOX = "sandbox"
    NETWORK = "network"
    CONTAINER = "container"

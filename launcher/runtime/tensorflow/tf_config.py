"""TF_CONFIG: the hosts of a TensorFlow cluster, and the task of one process in it.

Source: https://www.tensorflow.org/api_docs/python/tf/distribute/cluster_resolver/TFConfigClusterResolver
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from launcher.runtime.host.environment import Environment

TF_CONFIG_VARIABLE = "TF_CONFIG"
#: The program of a TensorFlow server, which reads that variable.
SERVER_MODULE = "launcher.runtime.tensorflow.tf_server"


def mirrored_config(environment: Environment) -> dict[str, str]:
    """Return TF_CONFIG of this train host for MultiWorkerMirroredStrategy, as a variable.

    The train group alone is the cluster: a data host in it would be waited for.
    """
    cluster = environment.cluster
    workers = [address(environment, host) for host in cluster.train_group.hosts]
    return _variable({"worker": workers}, "worker", cluster.host_rank)


def chief_config(environment: Environment) -> dict[str, str]:
    """Return TF_CONFIG of the train group's first host for ParameterServerStrategy."""
    return _variable(_servers_cluster(environment), "chief", 0)


def worker_config(environment: Environment) -> dict[str, str]:
    """Return TF_CONFIG of another train host, whose server works for the chief."""
    return _variable(_servers_cluster(environment), "worker", environment.cluster.host_rank - 1)


def server_config(environment: Environment) -> dict[str, str]:
    """Return TF_CONFIG of the server that holds parameters on this host."""
    return _variable(_servers_cluster(environment), "ps", environment.cluster.host_rank)


def _servers_cluster(environment: Environment) -> dict[str, list[str]]:
    """Return the tasks: the servers are those of their own group, or one on each train host."""
    chief, *workers = environment.cluster.train_group.hosts
    own = environment.parameter_servers
    servers = own or environment.cluster.train_group.hosts
    return {
        "chief": [address(environment, chief)],
        "worker": [address(environment, host) for host in workers],
        "ps": [address(environment, host, is_second=not own) for host in servers],
    }


def address(environment: Environment, host: str, *, is_second: bool = False) -> str:
    """Return the address of a TensorFlow server, with its port."""
    port = port_of(environment, host, is_second=is_second)
    return f"{environment.cluster.address(host)}:{port}"


def port_of(environment: Environment, host: str, *, is_second: bool = False) -> int:
    """Return the port of a host's TensorFlow server, which listens on every address.

    Hosts that share one network stack therefore have different ports. is_second: the port of a
    parameter server beside a host's worker.
    """
    cluster = environment.cluster
    index = cluster.hosts.index(host) if cluster.addresses else 0
    return environment.ports.tensorflow + 2 * index + int(is_second)


def _variable(cluster: Mapping[str, Sequence[str]], task: str, index: int) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": task, "index": index}}
    return {TF_CONFIG_VARIABLE: json.dumps(config)}

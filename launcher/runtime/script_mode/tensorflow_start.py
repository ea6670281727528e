"""TensorFlow's strategies in script mode: TF_CONFIG and parameter servers as of AWS's toolkit.

Source: training.py of sagemaker-tensorflow-training 20.5.0, with its ports and its name "master"
for the chief. Where local hosts share a network stack, each TensorFlow server has its own port.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from launcher.runtime.host import processes
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.output import Output
from launcher.runtime.tensorflow import keras_notice
from launcher.runtime.tensorflow.tf_config import SERVER_MODULE, TF_CONFIG_VARIABLE, port_of

_MIRRORED_PORT, _WORKER_PORT, _SERVER_PORT = 8890, 2222, 2223
_POLL = 1.0


def has_servers(environment: Environment, settings: Mapping[str, Any]) -> bool:
    """Return whether this host runs a parameter server: the toolkit starts none for one host."""
    cluster = environment.cluster
    is_enabled = bool(settings.get("sagemaker_parameter_server_enabled"))
    return is_enabled and cluster.is_in_train_group and len(cluster.hosts) > 1


def variables(environment: Environment, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return TF_CONFIG for the script of this host; none without one of the two strategies."""
    cluster = environment.cluster
    if has_servers(environment, settings):
        return _server_config(environment, is_server=False)
    is_mirrored = bool(settings.get("sagemaker_multi_worker_mirrored_strategy_enabled"))
    if not is_mirrored or not cluster.is_in_train_group:
        return {}
    hosts = _hosts(environment)
    workers = [_address(environment, host, _MIRRORED_PORT) for host in hosts]
    return _variable({"worker": workers}, "worker", hosts.index(cluster.host))


def hint_of_fit(variables: Mapping[str, str], printed: str) -> str:
    """Return the ways out if a script failed inside Keras 3's `fit` under a strategy."""
    return keras_notice.hint_of_fit(printed) if TF_CONFIG_VARIABLE in variables else ""


def missing_package() -> str | None:
    """Return why parameter servers cannot start here, or None."""
    if find_spec("tensorflow"):
        return None
    return f"the job needs parameter servers, and {sys.executable} has no tensorflow: install it"


@contextlib.contextmanager
def parameter_server(environment: Environment, variables: Mapping[str, str]) -> Iterator[None]:
    """Run this host's parameter server until the block ends."""
    output = Output()
    with processes.stop_signals_blocked():  # it serves while the scripts save
        server = output.start(
            [sys.executable, "-m", SERVER_MODULE],
            environment={**variables, **_server_config(environment, is_server=True)},
            folder=environment.paths.library,  # python -m finds our package there
        )
    try:
        yield
    finally:
        _end(server)
        output.drain()


def wait_for_master(environment: Environment, is_stopped: Callable[[], bool]) -> None:
    """Wait, on the other hosts, until the first host's script no longer listens."""
    master = _hosts(environment)[0]
    host, _, port = _address(environment, master, _WORKER_PORT).rpartition(":")
    while environment.cluster.host != master and not is_stopped():
        try:
            socket.create_connection((host, int(port)), timeout=_POLL).close()
        except OSError:
            return
        time.sleep(_POLL)


def _hosts(environment: Environment) -> list[str]:
    """Return the hosts of the distribution's group in the platform's order."""
    return sorted(environment.cluster.train_group.hosts)


def _server_config(environment: Environment, *, is_server: bool) -> dict[str, str]:
    """Return TF_CONFIG of a parameter server, or of the script beside it."""
    hosts = _hosts(environment)
    scripts = [_address(environment, host, _WORKER_PORT) for host in hosts]
    servers = [_address(environment, host, _SERVER_PORT) for host in hosts]
    cluster = {"master": scripts[:1], "ps": servers, "worker": scripts[1:]}
    index = hosts.index(environment.cluster.host)
    if is_server:
        return _variable(cluster, "ps", index)
    task = ("worker", index - 1) if index else ("master", 0)
    return _variable(cluster, *task)


def _address(environment: Environment, host: str, port: int) -> str:
    if environment.cluster.addresses:
        port = port_of(environment, host, is_second=port == _SERVER_PORT)
    return f"{environment.cluster.address(host)}:{port}"


def _variable(cluster: Mapping[str, list[str]], task: str, index: int) -> dict[str, str]:
    config = {
        "cluster": cluster,
        "environment": "cloud",
        "task": {"index": index, "type": task},
    }
    return {TF_CONFIG_VARIABLE: json.dumps(config)}


def _end(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(processes.CLOSE_SIGNAL)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()

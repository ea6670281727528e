"""tf.data's own service as an engine: a dispatcher on the leader and workers on the data hosts.

Ranks read it with `launcher.data.tf.distribute`, not with a loader. Server processes are forks of a
parent that has imported TensorFlow, so that one that dies is back on its port in a twentieth of a
second. TensorFlow's clients wait for ever for a worker that stays away, so one that dies again and
again fails the job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

from launcher.errors import DataServiceUnavailable
from launcher.runtime import TF_SERVICE_VARIABLE, Environment, JobHost, serve_until_end

if TYPE_CHECKING:
    from launcher.data.memory import Pinning

_SERVERS = "launcher.data.tf.servers"
_DISPATCHER, _WORKERS = "tf.data dispatcher", "tf.data workers"
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
#: Restarts of a parent of servers that was killed; it restarts the servers itself.
_RESTARTS = 1
#: Server processes on a data host by default. Each has a thread for each CPU.
_USUAL_WORKERS = 1


class TfEngine:
    """The dispatcher and the workers of tf.data's service, on the hosts of a job."""

    packages = ("tensorflow",)

    def start(self, host: JobHost) -> None:
        """Start the dispatcher on the leader, and this host's local workers."""
        environment = host.environment
        if environment.cluster.is_leader:
            # Of this attempt alone: with the journal of another one, TensorFlow would return no
            # elements for the epochs that were read then, without a word.
            journal = host.make_folder("launcher-tf-journal-")
            role = {"port": environment.ports.tf_dispatcher, "journal": str(journal)}
            _start(host, _DISPATCHER, {"dispatcher": {**role, "workers": _addresses(environment)}})
        if environment.local_workers:
            _start_workers(host)
        address = environment.cluster.address(environment.cluster.leader)
        host.variables[TF_SERVICE_VARIABLE] = f"{address}:{environment.ports.tf_dispatcher}"

    def serve(self, host: JobHost) -> None:
        """Keep this data host's workers running until training has ended."""
        host.require_package("tensorflow", "the data service")
        _start_workers(host)
        serve_until_end(host, host.check_services, lambda: host.close_service(_WORKERS))

    def stop_reading(self, host: JobHost) -> None:
        """Keep the local workers: they prepare elements for the ranks of all hosts."""

    def stop(self, host: JobHost) -> None:
        """Stop the workers, then the dispatcher."""
        host.close_service(_WORKERS)
        host.close_service(_DISPATCHER)

    def open_source(self, pinning: Pinning | None) -> NoReturn:
        """Refuse: a loader has no part in this engine."""
        raise DataServiceUnavailable(
            'this job has data_service.engine "tf", which launcher.data.tf.distribute(dataset) '
            'reads: use that, or engine "launcher" for a DataLoader'
        )


def _start(host: JobHost, name: str, role: dict[str, object]) -> None:
    host.start_service(name, _SERVERS, [json.dumps(role)], _QUIET, restarts=_RESTARTS)


def _start_workers(host: JobHost) -> None:
    """Start this host's workers, at the addresses that the dispatcher expects."""
    environment = host.environment
    cluster = environment.cluster
    dispatcher = f"{cluster.address(cluster.leader)}:{environment.ports.tf_dispatcher}"
    mine = _addresses(environment, cluster.host)
    _start(host, _WORKERS, {"workers": {"dispatcher": dispatcher, "addresses": mine}})


def _addresses(environment: Environment, of_host: str | None = None) -> list[str]:
    """Return host:port of all workers, or of one host's.

    No two have the same port, because TensorFlow's servers listen on all addresses of a machine,
    and local hosts may share one.
    """
    data = environment.document.data
    assert data is not None  # checked by the spec's rules and by main
    cluster = environment.cluster
    counts = dict.fromkeys(cluster.data_hosts, data.workers_per_host or _USUAL_WORKERS)
    counts |= dict.fromkeys(cluster.train_group.hosts, environment.local_workers)
    hosts = [each for each, count in counts.items() for _ in range(count)]
    first = environment.ports.tf_worker
    return [
        f"{cluster.address(each)}:{first + index}"
        for index, each in enumerate(hosts)
        if of_host in (None, each)
    ]

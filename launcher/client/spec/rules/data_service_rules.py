"""Rules for the data service: its numbers, and the options that need data workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.data_service import DataService
from launcher.client.spec.field_checks import range_problems
from launcher.client.spec.roles import assign_roles
from launcher.errors import Problem
from launcher.shared import Ports, Role

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

#: Less than this does not hold a batch of a few images.
_PREFETCH_LEAST = 1024 * 1024
#: More than the CPUs of any instance type.
_LOCAL_WORKERS_LIMIT = 1024
_LAST_PORT = 65535
_OWN_PORTS = range(Ports().base, Ports().rendezvous + 1)


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the data service."""
    if spec.data_service is not None:
        yield from _number_problems(spec.data_service)
        yield from _idle_parts(spec, spec.data_service)


def _number_problems(service: DataService) -> Iterator[Problem]:
    path = ("data_service",)
    if service.workers_per_host is not None:
        yield from range_problems((*path, "workers_per_host"), service.workers_per_host, 1)
    yield from range_problems((*path, "start_timeout"), service.start_timeout, 1)
    yield from range_problems(
        (*path, "local_workers"), service.local_workers, 0, _LOCAL_WORKERS_LIMIT
    )
    if service.prefetch_bytes < _PREFETCH_LEAST:
        what = f"prefetch_bytes is {service.prefetch_bytes}, too little to hold batches"
        fix = f"use {_PREFETCH_LEAST} (1 MiB) or more; 268435456 is the default"
        yield Problem(path=(*path, "prefetch_bytes"), what=what, fix=fix)
    if service.metrics_port is not None:
        yield from range_problems((*path, "metrics_port"), service.metrics_port, 1, _LAST_PORT)
    if service.metrics_port in _OWN_PORTS:
        what = f"metrics_port is {service.metrics_port}, which Launcher itself listens on"
        fix = f"use a port outside {_OWN_PORTS[0]} to {_OWN_PORTS[-1]}: 9400"
        yield Problem(path=(*path, "metrics_port"), what=what, fix=fix)


def _idle_parts(spec: JobSpec, service: DataService) -> Iterator[Problem]:
    """Warn about options without effect because the ranks load their data themselves."""
    roles, unclear = assign_roles(spec.groups, has_data_service=True)
    if unclear or Role.DATA in roles.values() or service.local_workers:
        return
    if service.metrics_port:
        yield Problem(
            path=("data_service", "metrics_port"),
            about=(("instance_groups",),),
            what="metrics_port does nothing: no process prepares data",
            fix="add a data group or local_workers; without them each rank loads its data itself",
            is_warning=True,
        )

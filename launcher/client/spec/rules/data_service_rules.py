"""Rules for the data service: its numbers, its engine, and options that need data workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import range_problems
from launcher.client.spec.job_parts import DataService
from launcher.client.spec.roles import job_roles
from launcher.errors import Problem
from launcher.shared import (
    DEFAULT_ENGINE,
    ENGINE_ENTRY_POINTS,
    TF_ENGINE,
    Ports,
    Role,
    did_you_mean,
)

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

#: Less than this does not hold a batch of a few images.
_PREFETCH_LEAST = 1024 * 1024
#: More than the CPUs of any instance type.
_LOCAL_WORKERS_LIMIT = 1024
_LAST_PORT = 65535
#: The fields that only data workers read.
_OF_WORKERS = ("workers_per_host", "checksums", "metrics_port", "engine")
_OWN_PORTS = range(Ports().base, Ports().tf_dispatcher + 1)


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the data service."""
    if spec.data_service is not None:
        yield from _number_problems(spec.data_service)
        yield from _engine_problems(spec, spec.data_service.engine)
        yield from _idle_parts(spec, spec.data_service)
        yield from _parts_of_own_service(spec.data_service)
        yield from _open_servers(spec, spec.data_service)


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


def _engine_problems(spec: JobSpec, engine: str) -> Iterator[Problem]:
    """Find an engine that no package here has.

    Local hosts run this Python, so the job would fail. The hosts of other jobs may have a package
    that this machine has not: only their Python can tell.
    """
    if engine in (DEFAULT_ENGINE, TF_ENGINE) or engine in (known := _known_engines()):
        return
    near = did_you_mean(engine, known)
    runs_here = spec.is_local and "PYTHONPATH" not in spec.environment
    package = f"the package that has it as an entry point of {ENGINE_ENTRY_POINTS}"
    todo = f"install {package}" if runs_here else f"check that the job's hosts have {package}"
    yield Problem(
        path=("data_service", "engine"),
        about=(("environment",), ("instance_groups",), ("instance_type",)),
        what=f'no package here has a data engine "{engine}"; there are {", ".join(known)}',
        fix=f'did you mean "{near}"?' if near else todo,
        is_warning=not runs_here,
    )


def _known_engines() -> list[str]:
    """Return the names of the data engines of this Python, importing none of them."""
    from importlib.metadata import entry_points  # 15 ms to import, and few jobs come here

    return [DEFAULT_ENGINE, TF_ENGINE, *sorted(entry_points(group=ENGINE_ENTRY_POINTS).names)]


def _idle_parts(spec: JobSpec, service: DataService) -> Iterator[Problem]:
    """Warn about what has no effect because the ranks load their data themselves.

    Datasets have one: `launcher check --data` reads them.
    """
    if _prepares_data(spec, service) is not False:
        return
    usual = DataService()
    idle = [name for name in _OF_WORKERS if getattr(service, name) != getattr(usual, name)]
    paths = [("data_service",)] if service == usual else [("data_service", name) for name in idle]
    for path in paths:
        yield Problem(
            path=path,
            about=(("instance_groups",),),
            what=f"{path[-1]} does nothing: no process prepares data",
            fix="add a data group or local_workers; without them each rank loads its data itself",
            is_warning=True,
        )


def _prepares_data(spec: JobSpec, service: DataService) -> bool | None:
    """Return whether hosts have data workers; None if it is not clear which group does what."""
    roles, unclear = job_roles(spec)
    return None if unclear else Role.DATA in roles.values() or service.local_workers > 0


def _parts_of_own_service(service: DataService) -> Iterator[Problem]:
    """Warn about options of Launcher's own service that tf.data's does not have."""
    if service.engine != TF_ENGINE:
        return
    usual = DataService()
    for field in ("datasets", "prefetch_bytes", "checksums", "metrics_port"):
        if getattr(service, field) != getattr(usual, field):
            yield Problem(
                path=("data_service", field),
                about=(("data_service", "engine"),),
                what=f"{field} does nothing with the engine {TF_ENGINE!r}, tf.data's own service",
                fix=f"leave {field} out, or use Launcher's engine: leave engine out",
                is_warning=True,
            )


def _open_servers(spec: JobSpec, service: DataService) -> Iterator[Problem]:
    """Warn about tf.data's servers in a job that AWS gives no network of its own."""
    is_guarded = spec.is_local or bool(spec.subnets) or bool(spec.enable_network_isolation)
    if service.engine != TF_ENGINE or is_guarded or not _prepares_data(spec, service):
        return
    yield Problem(
        path=("data_service", "engine"),
        about=(("subnets",), ("enable_network_isolation",), ("instance_type",)),
        what="tf.data's servers have no authentication and listen on every network of their hosts, "
        "and on AWS the job has none of its own",
        fix="write enable_network_isolation: true, or subnets and the security_group_ids of a "
        "group that admits only itself",
        is_warning=True,
    )

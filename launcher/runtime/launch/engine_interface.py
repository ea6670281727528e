"""The interface of a data engine's services: what the roles start and stop on each host.

Rooms above this one hold the engines, so the registry is imported by its name.
"""

from __future__ import annotations

import importlib
from typing import Protocol

from launcher.runtime.host.job_host import JobHost

_REGISTRY = "launcher.data.engines.base"


class DataServices(Protocol):
    """A data engine's part on each host.

    1. `start` runs on each train host before its ranks start; what it puts into `host.variables`
       is in the environment of the ranks.
    2. `serve` runs on each data host, and returns when training has ended, well or badly.
    3. `stop_reading` runs on each train host when its ranks have ended and before other hosts are
       notified. `stop` runs there when all train hosts are done.
    4. Processes are children of the host (`start_service`, `supervise_workers`). The host restarts
       those that may be restarted, reports the others, and ends all of them with the job.
    """

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages that a train host's Python must have."""

    def start(self, host: JobHost) -> None:
        """Start this train host's services."""

    def serve(self, host: JobHost) -> None:
        """Run the role of a data host."""

    def stop_reading(self, host: JobHost) -> None:
        """Stop what served this host's ranks."""

    def stop(self, host: JobHost) -> None:
        """Stop what the data hosts and other train hosts still needed."""


def data_services(engine: str) -> DataServices:
    """Return the services of the engine of that name; raises DataError when there is none."""
    services: DataServices = importlib.import_module(_REGISTRY).find_engine(engine)
    return services

"""The role of the train group: run the user's script or a task, by the starter of the job."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from launcher.runtime.host.cluster import in_numeric_order
from launcher.runtime.host.environment import ENGINE_VARIABLE
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.hyperparameters import as_arguments
from launcher.runtime.host.job_host import JobEnded, JobHost
from launcher.runtime.launch.engine_interface import DataServices, data_services
from launcher.runtime.launch.starters.registry import TerminalStarter, starter_for
from launcher.shared import DEBUG_VARIABLE

#: Extra seconds in which a command host can report why it is not ready, which is more specific.
_PRECEDENCE = 5.0
#: Seconds after which the wait for them is reported.
_SLOW = 2.0


def run_role(host: JobHost) -> None:
    """Run the train host's part to its end; raise HostFailed, JobEnded or StopRequested."""
    services = _start_data_services(host)
    wait_for_programs(host)
    reports = Path(tempfile.mkdtemp(prefix="launcher-reports-"))
    try:
        _train(host, reports)
    finally:
        shutil.rmtree(reports, ignore_errors=True)
    if services is not None:
        services.stop_reading(host)
    host.coordination.report_done()
    _wait_for_others(host)
    if services is not None:
        services.stop(host)


def _start_data_services(host: JobHost) -> DataServices | None:
    data = host.environment.document.data
    if data is None or not host.environment.has_data_service:
        return None
    services = data_services(data.engine)
    for package in services.packages:
        host.require_package(package, "the data service")
    host.variables[ENGINE_VARIABLE] = data.engine
    services.start(host)
    return services


def wait_for_programs(host: JobHost) -> None:
    """Wait until the programs of all command hosts are ready, as scripts may use them at once."""
    awaited = host.environment.prerequisite_hosts
    timeout = host.environment.document.start_timeout + _PRECEDENCE
    begin = time.monotonic()
    shown: frozenset[str] = frozenset()
    while missing := awaited - host.coordination.ready_hosts:
        host.check()
        waited = time.monotonic() - begin
        if waited > timeout:
            names = ", ".join(in_numeric_order(missing))
            raise host.failure(f"the command hosts {names} were not ready within {timeout:.0f} s")
        if waited > _SLOW and missing != shown:
            shown = missing
            emit("host_phase", doing=f"waiting for {', '.join(in_numeric_order(missing))}")
        host.pause()
    if shown:
        emit("host_phase", doing="")


def _train(host: JobHost, reports: Path) -> None:
    trainer = host.environment.document.trainer
    is_debugged = DEBUG_VARIABLE in host.variables
    starter = TerminalStarter if is_debugged else starter_for(trainer.launch)
    starter(host, reports).run(_program(host))


def _program(host: JobHost) -> list[str]:
    """Return the module that each rank runs and its arguments: the user's script or our trainer."""
    environment = host.environment
    trainer = environment.document.trainer
    if trainer.task is not None:
        return ["launcher.trainers"]
    script = environment.paths.code / trainer.entry_point
    if not script.is_file():
        raise host.failure(f"the entry point {trainer.entry_point} is not in the bundle")
    return ["launcher.runtime.launch.rank", str(script), *as_arguments(environment.hyperparameters)]


def _wait_for_others(host: JobHost) -> None:
    """Wait until every train host is done, which the job coordination reports."""
    try:
        while True:
            host.check()
            host.check_services()
            host.pause()
    except JobEnded as ended:
        if ended.outcome.failure is not None:
            raise

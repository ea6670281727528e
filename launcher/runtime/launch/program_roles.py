"""The roles of command and script groups: run a program of the user on every host of the group.

A script group runs the job's entry point, as SageMaker's toolkit does.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from launcher.runtime.host.environment import Environment
from launcher.runtime.host.hyperparameters import as_arguments
from launcher.runtime.host.job_host import HostFailed, JobEnded, JobHost
from launcher.runtime.host.report_files import REPORTS_VARIABLE, read_reports
from launcher.runtime.launch import train_role
from launcher.runtime.launch.supervised_program import ProgramSettings, run_program
from launcher.shared import PYTHON_WORDS, Lifetime


def run_command(host: JobHost) -> None:
    """Run the command of this host; return when the job has ended, well or badly.

    Raises what `run_program` raises.
    """
    part = host.environment.command
    assert part is not None  # checked by the spec's rules and by main
    first, *rest = part.command
    values = host.environment.hyperparameters if part.pass_hyperparameters else {}
    words = [sys.executable if first in PYTHON_WORDS else first, *rest, *as_arguments(values)]
    folder = host.environment.paths.code
    settings = ProgramSettings(
        noun="command", words=words, folder=folder, ready=part.ready, lifetime=part.lifetime
    )
    run_program(host, settings)


def run_script(host: JobHost) -> None:
    """Run the script: by the starter on the distribution's group, else as plain Python.

    Raises what `train_role.run_role` and `run_program` raise.
    """
    environment = host.environment
    if environment.starts_ranks:
        train_role.run_role(host)
        return
    if environment.cluster.is_in_train_group:
        train_role.wait_for_programs(host)
    reports = Path(tempfile.mkdtemp(prefix="launcher-reports-"))
    try:
        outcome = run_program(host, _settings(host, reports), lambda: _reported(host, reports))
    finally:
        shutil.rmtree(reports, ignore_errors=True)
    if outcome.failure is not None and environment.script.lifetime is Lifetime.OWN:
        raise JobEnded(outcome)  # its own work was cut short


def _settings(host: JobHost, reports: Path) -> ProgramSettings:
    environment = host.environment
    entry_point = environment.document.trainer.entry_point
    script = environment.paths.code / entry_point
    if not script.is_file():
        raise host.failure(f"the entry point {entry_point} is not in the bundle")
    starter = [sys.executable, "-m", "launcher.runtime.launch.rank"]
    return ProgramSettings(
        noun="script",
        words=[*starter, str(script), *as_arguments(environment.hyperparameters)],
        folder=environment.paths.library,
        ready=environment.script.ready,
        lifetime=environment.script.lifetime,
        variables={REPORTS_VARIABLE: str(reports), **_rendezvous_variables(environment)},
    )


def _rendezvous_variables(environment: Environment) -> dict[str, str]:
    """Return where ranks meet, as the PyTorch image sets it for every script."""
    return {
        "MASTER_ADDR": environment.cluster.address(environment.master),
        "MASTER_PORT": str(environment.ports.rendezvous),
    }


def _reported(host: JobHost, reports: Path) -> HostFailed | None:
    """Return the failure that the script's process has reported; None if there is no report."""
    for report in read_reports(reports, "rank-*"):
        return host.failure(
            report["cause"], detail=report["detail"], is_peer_loss=report["is_peer_loss"]
        )
    return None

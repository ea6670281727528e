"""The role of a command group: run any program until training ends."""

from __future__ import annotations

import sys

from launcher.runtime.host.hyperparameters import as_arguments
from launcher.runtime.host.job_host import JobHost
from launcher.runtime.launch.supervised_program import ProgramSettings, run_program
from launcher.shared import PYTHON_WORDS


def run_role(host: JobHost) -> None:
    """Run the program of this host; return when the job has ended, well or badly.

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

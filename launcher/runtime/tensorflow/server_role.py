"""The role of a distribution's server group: a server with parameters on each of its hosts."""

from __future__ import annotations

import sys

from launcher.runtime.host.job_host import JobHost
from launcher.runtime.launch.supervised_program import ProgramSettings, run_program
from launcher.runtime.tensorflow.tf_config import port_of, server_config
from launcher.shared import Lifetime, Ready

SERVER_MODULE = "launcher.runtime.tensorflow.tf_server"


def run_role(host: JobHost) -> None:
    """Run the server of this host until training has ended; raise what `run_program` raises."""
    host.require_package("tensorflow", "a parameter server")
    environment = host.environment
    settings = ProgramSettings(
        noun="parameter server",
        words=[sys.executable, "-m", SERVER_MODULE],
        folder=environment.paths.library,
        ready=Ready(port=port_of(environment, environment.cluster.host)),
        lifetime=Lifetime.TRAIN,
        variables=server_config(environment),
    )
    run_program(host, settings)

"""A server of parameter server training, on each host of a distribution's server group.

`python -m launcher.runtime.tensorflow.tf_server` serves the task in TF_CONFIG, a worker or a
server that holds parameters, until a signal ends it: TensorFlow's own `Server.join()` does not
return when the chief has ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from launcher.runtime.host.event_log import emit
from launcher.runtime.host.job_host import JobHost
from launcher.runtime.host.processes import CLOSE_SIGNAL
from launcher.runtime.launch.supervised_program import ProgramSettings, run_program
from launcher.runtime.tensorflow.tf_config import (
    SERVER_MODULE,
    TF_CONFIG_VARIABLE,
    port_of,
    server_config,
)
from launcher.shared import Lifetime, Ready

_END_SIGNALS = {signal.SIGTERM, CLOSE_SIGNAL}


def main() -> int:
    """Serve until SIGTERM, or the signal by which a host ends its services.

    A service has SIGTERM blocked from its start, and leaves it to its host.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)  # in TensorFlow's threads too
    config = json.loads(os.environ[TF_CONFIG_VARIABLE])
    task = config["task"]
    if task["type"] == "ps":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # its host's GPUs are the worker's
    import tensorflow

    server = tensorflow.distribute.Server(
        config["cluster"], job_name=task["type"], task_index=task["index"], protocol="grpc"
    )
    emit("tf_server_started", task=task["type"], index=task["index"], target=server.target)
    signal.sigwait(_END_SIGNALS - blocked)
    os._exit(0)  # threads of the server would keep the interpreter


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


if __name__ == "__main__":
    sys.exit(main())

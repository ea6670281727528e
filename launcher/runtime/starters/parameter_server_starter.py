"""The starter of TensorFlow's ParameterServerStrategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.runtime.job_host import JobEnded
from launcher.runtime.starters.tensorflow_starter import TensorflowStarter
from launcher.runtime.tensorflow.server_role import SERVER_MODULE
from launcher.runtime.tensorflow.tf_config import chief_config, server_config, worker_config

_WORKER, _SERVER = "TensorFlow worker", "parameter server"


class ParameterServerStarter(TensorflowStarter):
    """The script on the chief, and TensorFlow's servers on the other train hosts."""

    def run(self, program: Sequence[str]) -> None:
        """Run the script on the chief, or a worker until the chief has ended."""
        environment = self.host.environment
        if not environment.parameter_servers:
            self._serve(_SERVER, server_config(environment))
        if environment.cluster.is_leader:
            super().run(program)
        else:
            self._serve(_WORKER, worker_config(environment))
            self._wait_for_chief()
        for name in (_WORKER, _SERVER):
            self.host.close_service(name)

    def variables(self) -> dict[str, str]:
        """Return the variables of the chief, which is the only rank, and its TF_CONFIG."""
        alone = {**super().variables(), "RANK": "0", "WORLD_SIZE": "1"}
        return {**alone, **chief_config(self.host.environment)}

    def _serve(self, name: str, variables: Mapping[str, str]) -> None:
        self.host.require_package("tensorflow", f"a {name}")
        self.host.start_service(name, SERVER_MODULE, variables=variables)

    def _wait_for_chief(self) -> None:
        try:
            self.host.wait_until(lambda: False)
        except JobEnded as ended:
            if ended.outcome.failure is not None:
                raise

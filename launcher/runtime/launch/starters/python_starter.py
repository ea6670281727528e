"""The starter of one plain Python process on each train host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.runtime.launch.starters.base import Starter


class PythonStarter(Starter):
    """One process on each host, with the variables that torchrun would set."""

    def run(self, program: Sequence[str]) -> None:
        """Run the one rank of this host to its end."""
        self.run_child(program[0], program[1:], self.variables())

    def exits(self, code: int) -> Mapping[int, int]:
        """Return the exit status of the child, which is the only rank."""
        return {self.host.environment.cluster.host_rank: code}

    def variables(self) -> dict[str, str]:
        """Return the variables of this host's rank beside those of every program here."""
        environment, cluster = self.host.environment, self.host.environment.cluster
        return {
            "RANK": str(cluster.host_rank),
            "WORLD_SIZE": str(len(cluster.train_group.hosts)),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": cluster.address(cluster.leader),
            "MASTER_PORT": str(environment.ports.rendezvous),
        }

"""The starter of torchrun over the train group, for scripts and for our own trainers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from launcher.runtime.starters.base import Starter
from launcher.shared import CODE_CHANNEL, PARALLEL_VARIABLE, TASK_VARIABLE


class TorchrunStarter(Starter):
    """torchrun on each train host, with static rendezvous; the leader holds the store."""

    def run(self, program: Sequence[str]) -> None:
        """Run torchrun and the ranks of this host to their end."""
        self.host.require_package("torch", "torchrun")
        self.run_child("launcher.runtime.torchrun", [*self._options(), *program], self._variables())

    def exits(self, code: int) -> Mapping[int, int]:
        """Return the exit statuses that torchrun has reported."""
        return self.reported_exits("torchrun")

    def _options(self) -> list[str]:
        environment, cluster = self.host.environment, self.host.environment.cluster
        return [
            f"--nnodes={len(cluster.train_group.hosts)}",
            f"--node-rank={cluster.host_rank}",
            f"--nproc-per-node={environment.document.trainer.processes_per_host}",
            "--rdzv-backend=static",
            f"--master-addr={cluster.address(cluster.leader)}",
            f"--master-port={environment.ports.rendezvous}",
            f"--rdzv-id={environment.job_name}",
            f"--rdzv-conf=timeout={int(environment.document.start_timeout)}",
            f"--log-dir={self.reports}",
            "--module",
        ]

    def _variables(self) -> dict[str, str]:
        """Return the job's settings for each rank: how ranks share the model, and the task."""
        environment = self.host.environment
        trainer = environment.document.trainer
        part = trainer.parallel
        if part.partition_file:
            path = environment.paths.channels / CODE_CHANNEL / part.partition_file
            part = dataclasses.replace(part, partition_file=str(path))
        task = {} if trainer.task is None else {TASK_VARIABLE: trainer.task}
        return {PARALLEL_VARIABLE: part.to_json(), **task}

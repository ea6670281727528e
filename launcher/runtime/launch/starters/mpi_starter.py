"""The starter of MPI over the train group."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from launcher.runtime.host import processes
from launcher.runtime.host.output import NamedOutput, Output
from launcher.runtime.host.report_files import REPORTS_VARIABLE
from launcher.runtime.launch.starters.base import Starter
from launcher.runtime.mpi.daemons import Daemons
from launcher.runtime.mpi.mpi_rank import OUTPUT
from launcher.runtime.mpi.mpirun_of_group import agent_variables, group_command

_RANK = "launcher.runtime.mpi.mpi_rank"
_FIX = "use an image that has it (AWS's training images do; apt-get: openmpi-bin)"


class MpiStarter(Starter):
    """mpirun on the leader, and its daemon on every other train host."""

    def run(self, program: Sequence[str]) -> None:
        """Run this host's ranks, which read their program from the environment, to their end."""
        self._require_open_mpi()
        ranks = NamedOutput(self.reports / OUTPUT)
        ranks.follow()
        try:
            if self.host.environment.cluster.is_leader:
                self._run_mpirun()
            else:
                self._run_daemon()
        finally:
            ranks.drain()
        self._check_ranks()

    def exits(self, code: int) -> Mapping[int, int]:
        """Return the exit statuses that the ranks' parent processes have reported."""
        return self.reported_exits("exit-*")

    def _check_ranks(self) -> None:
        if any(self.reports.glob("exit-*.json")):
            raise self.failure(1)

    def _run_mpirun(self) -> None:
        """Run mpirun, which starts this host's ranks itself or, with several hosts, by a daemon."""
        if len(self.host.environment.cluster.train_group.hosts) > 1:
            self._serve_daemons()
        output = Output()
        child = output.start(
            self._command(),
            environment=self._variables(),
            folder=self.host.environment.paths.library,
        )
        # At SIGTERM it would end all ranks at once, although they may be saving their work.
        self.host.exempt_from_sigterm(child)
        code = self.host.wait(child, self._check_ranks)
        if code != 0:
            output.drain()
            self._check_ranks()
            # The host of the failed rank reports more detail.
            cause = f"mpirun ended: {processes.describe_exit(code)}"
            raise self.host.failure(cause, detail=output.last_lines())

    def _run_daemon(self) -> None:
        """Start the daemon when the leader asks for it, and wait for its end."""
        daemons = self._serve_daemons()
        self.host.wait_until(lambda: daemons.exit is not None, self._check_ranks)
        if daemons.exit:
            self._check_ranks()
            how = processes.describe_exit(daemons.exit)
            raise self.host.failure(f"MPI's daemon (orted) ended: {how}")

    def _serve_daemons(self) -> Daemons:
        variables = self._variables()
        daemons = Daemons(
            self.host.environment,
            lambda command: self.host.start_program(command, variables),
            self.host.exempt_from_sigterm,
        )
        daemons.serve()
        return daemons

    def _command(self) -> list[str]:
        environment = self.host.environment
        return group_command(
            environment, rank=_RANK, custom=environment.document.trainer.mpi_options
        )

    def _variables(self) -> dict[str, str]:
        """Return the environment for mpirun, the daemons and the ranks; mpirun sends none."""
        environment, cluster = self.host.environment, self.host.environment.cluster
        return {
            **self.host.variables,
            REPORTS_VARIABLE: str(self.reports),
            "MASTER_ADDR": cluster.address(cluster.leader),
            "MASTER_PORT": str(environment.ports.rendezvous),
            **agent_variables(environment),
        }

    def _require_open_mpi(self) -> None:
        """Raise HostFailed without Open MPI 4, before hosts wait for each other."""
        if " " in sys.executable:  # mpirun splits the agent's command at blanks, without quoting
            raise self.host.failure(
                f"MPI needs a Python whose path has no blanks: {sys.executable!r}"
            )
        if shutil.which("mpirun", path=self.host.variables.get("PATH")) is None:
            raise self.host.failure(f"MPI needs Open MPI 4, and mpirun is not on PATH: {_FIX}")
        version = subprocess.run(
            ["mpirun", "--version"],
            capture_output=True,
            text=True,
            env=self.host.variables,
            check=False,
        ).stdout.strip()
        if "(Open MPI) 4." not in version:
            raise self.host.failure(
                f"MPI needs Open MPI 4, and `mpirun --version` prints {version[:80]!r}: {_FIX}"
            )

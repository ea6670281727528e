"""Starters of torchrun, JAX and TensorFlow, and the registry of all by their names.

Another package lists its starters in the entry point group "launcher.starters"; the job documents
of its distribution have their names.
"""

from __future__ import annotations

import dataclasses
import fcntl
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.errors import ContractError
from launcher.runtime.host.job_host import HostFailed, JobEnded
from launcher.runtime.host.report_files import REPORTS_VARIABLE
from launcher.runtime.launch.starters.base import Starter
from launcher.runtime.launch.starters.mpi_starter import MpiStarter
from launcher.runtime.tensorflow.keras_notice import with_ways_out
from launcher.runtime.tensorflow.tf_config import (
    SERVER_MODULE,
    chief_config,
    mirrored_config,
    server_config,
    worker_config,
)
from launcher.shared import (
    CODE_CHANNEL,
    PARALLEL_VARIABLE,
    TASK_VARIABLE,
    WAIT_FOR_TERMINAL,
    Launch,
)

#: Seconds in which the client starts the rank.
_TERMINAL_SECONDS = 60.0
_NO_TERMINAL = (
    "no terminal asked for the rank: LAUNCHER_DEBUG is for `launcher run --debug`, which sets it"
)


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


class TensorflowStarter(PythonStarter):
    """One process on a host; its failure says what Keras 3 cannot do under the strategy."""

    def failure(self, code: int) -> HostFailed:
        """Return the first cause; for an error inside Keras 3's `fit`, with the ways out."""
        return HostFailed(with_ways_out(super().failure(code).failure))


class TerminalStarter(PythonStarter):
    """The one rank of `launcher run --debug`, which the client starts in the user's terminal.

    A program that waits here lends it its environment, its namespaces and its lifetime.
    """

    def run(self, program: Sequence[str]) -> None:
        """Wait until the rank has ended in the terminal."""
        host, file = self.host, self.host.environment.paths.terminal
        variables = {**host.variables, REPORTS_VARIABLE: str(self.reports), **self.variables()}
        file.unlink(missing_ok=True)
        command = [sys.executable, "-c", WAIT_FOR_TERMINAL, *program]
        waiting = host.start_program(command, variables)
        deadline = time.monotonic() + _TERMINAL_SECONDS

        def is_done() -> bool:
            if not file.exists() and time.monotonic() > deadline:
                raise host.failure(_NO_TERMINAL)
            return file.exists() and not _is_locked(file)

        host.wait_until(is_done)
        waiting.kill()
        waiting.wait()
        code = file.read_text()
        if not code:
            raise host.failure("the terminal of `launcher run --debug` was closed")
        if int(code):
            raise self.failure(int(code))

    def exits(self, code: int) -> Mapping[int, int]:
        """Return the exit status of the rank, of which the terminal has a shell's code."""
        is_signal = code - 128 in set(signal.Signals)
        return super().exits(128 - code if is_signal else code)

    def variables(self) -> dict[str, str]:
        """Return the variables that the rank would have under the job's own starter."""
        starter = starter_for(self.host.environment.document.trainer.launch)
        return {**super().variables(), **starter(self.host, self.reports).variables()}


def _is_locked(file: Path) -> bool:
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class TorchrunStarter(Starter):
    """torchrun on each train host, with static rendezvous; the leader holds the store."""

    def run(self, program: Sequence[str]) -> None:
        """Run torchrun and the ranks of this host to their end."""
        self.host.require_package("torch", "torchrun")
        self.run_child(
            "launcher.runtime.launch.torchrun", [*self._options(), *program], self.variables()
        )

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

    def variables(self) -> dict[str, str]:
        """Return the job's settings for each rank: how ranks share the model, and the task."""
        environment = self.host.environment
        trainer = environment.document.trainer
        part = trainer.parallel
        if part.partition_file:
            path = environment.paths.channels / CODE_CHANNEL / part.partition_file
            part = dataclasses.replace(part, partition_file=str(path))
        task = {} if trainer.task is None else {TASK_VARIABLE: trainer.task}
        return {PARALLEL_VARIABLE: part.to_json(), **task}


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


class JaxStarter(PythonStarter):
    """One process on each train host, with the variables of jax.distributed."""

    def variables(self) -> dict[str, str]:
        """Return what torchrun would set, which the data loader reads, and JAX's variables.

        JAX reads the coordinator's address itself, and `jax.distributed.initialize` takes the
        other two as arguments. `keras.distribution.initialize` reads all of Keras's.
        """
        common = super().variables()
        coordinator = f"{common['MASTER_ADDR']}:{common['MASTER_PORT']}"
        return {
            **common,
            "JAX_COORDINATOR_ADDRESS": coordinator,
            "JAX_NUM_PROCESSES": common["WORLD_SIZE"],
            "JAX_PROCESS_ID": common["RANK"],
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": coordinator,
            "KERAS_DISTRIBUTION_NUM_PROCESSES": common["WORLD_SIZE"],
            "KERAS_DISTRIBUTION_PROCESS_ID": common["RANK"],
        }


class MultiWorkerMirroredStarter(TensorflowStarter):
    """One process on each train host, with TF_CONFIG; it uses all GPUs of its host."""

    def variables(self) -> dict[str, str]:
        """Return what torchrun would set, which the data loader reads, and TF_CONFIG."""
        return {**super().variables(), **mirrored_config(self.host.environment)}


ENTRY_POINTS = "launcher.starters"

STARTERS: dict[str, type[Starter]] = {
    Launch.PYTHON: PythonStarter,
    Launch.TORCHRUN: TorchrunStarter,
    Launch.MPI: MpiStarter,
    Launch.MULTI_WORKER_MIRRORED: MultiWorkerMirroredStarter,
    Launch.PARAMETER_SERVER: ParameterServerStarter,
    Launch.JAX: JaxStarter,
}


def starter_for(launch: str) -> type[Starter]:
    """Return the starter of that name; raise ContractError if there is none."""
    if launch in STARTERS:
        return STARTERS[launch]
    from importlib.metadata import entry_points  # 15 ms to import, and few jobs need it

    for point in entry_points(group=ENTRY_POINTS, name=launch):
        starter: type[Starter] = point.load()
        return starter
    raise ContractError(
        f"the job document has launch: {launch}, but this image has no starter of that name: "
        f"use one of {', '.join(STARTERS)}, or install the package that provides it (entry point "
        f"group {ENTRY_POINTS})"
    )

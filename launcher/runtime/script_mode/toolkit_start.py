"""Emulates the entry point of an AWS framework image: SageMaker training toolkit's script mode.

Serves jobs that name no program (ContainerEntrypoint) but a script in their hyperparameters, as SDK
v2 submits them. The script finds what sagemaker-training 5.1.4 provides: its folder, arguments and
SM_* variables; torchrun, mpirun or TF_CONFIG over the hosts of the distribution's group, or over
the host's own group if none is named; and a failure file in the toolkit's wording. requirements.txt
is installed by the platform. One difference is intentional: SIGTERM reaches the script.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.runtime.end import failure_file
from launcher.runtime.host import hyperparameters, processes
from launcher.runtime.host.environment import Environment, paths_here, read_config
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.event_relay import events_of_children
from launcher.runtime.host.output import Output, TakenPortNotice, drain_all, hint_of_taken_port
from launcher.runtime.host.requirements_install import report_provided
from launcher.runtime.host.sm_variables import (
    child_environment,
    count_gpus,
    count_neurons,
    stand_ins,
)
from launcher.runtime.mpi.daemons import Daemons
from launcher.runtime.script_mode import mpi_start, tensorflow_start
from launcher.shared import (
    DEFAULT_ML_ROOT,
    FAILURE_REASON_LIMIT,
    REQUIREMENTS_FILE,
    JobDocument,
    MlPaths,
    Role,
    TrainerPart,
    descendants,
    extract_all,
    open_archive,
    signal_all,
    space_problem,
)

#: Characters left for the script's own message, of the 1,024 of a reason.
_MESSAGE_LIMIT = FAILURE_REASON_LIMIT - 300
#: The toolkit's distributions, as their hyperparameters name them.
_STRATEGIES = (
    "torch_distributed",
    "mpi",
    "parameter_server",
    "multi_worker_mirrored_strategy",
    "distributed_dataparallel",
    "pytorch_ddp",
    "pytorch_xla_multi_worker",
)
_POLL = 0.1
_TRACEBACK = "Traceback (most recent call last):"
#: A shell's exit codes for a program that SIGTERM ended and for one that ran out of memory.
_TERMINATED, _OUT_OF_MEMORY = 143, 137


def main(archive: str | None = None) -> int:
    """Run the job's script on this host and return the host's exit code.

    archive: the source (tar.gz), if it was not in a channel.
    """
    paths = paths_here()
    settings = hyperparameters.decode(read_config(paths.config / "hyperparameters.json"), {})
    program = str(settings["sagemaker_program"])
    submitted = str(settings["sagemaker_submit_directory"])
    environment = Environment.read(paths, document=_document(paths, settings, program))
    variables = _variables(environment, submitted)
    for name in ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP"):
        os.environ[name] = variables[name]  # so that events name this host
    try:
        code = _unpack(archive or submitted, paths)
    except (tarfile.TarError, OSError, EOFError) as error:
        failure_file.write_reason(paths, f"the archive of the script cannot be unpacked: {error}")
        return 1
    if (code / REQUIREMENTS_FILE).exists():
        report_provided(REQUIREMENTS_FILE)
    _warn_of_separate_groups(environment, settings)
    with events_of_children(paths) as events:
        variables |= {"PYTHONPATH": _search_path(code), **events}
        if settings.get("sagemaker_mpi_enabled") and environment.cluster.is_in_train_group:
            return _run_mpi(environment, settings, variables, code, program)
        variables |= tensorflow_start.variables(environment, settings)
        command = _command(environment, settings, code, program)
        if tensorflow_start.has_servers(environment, settings):
            return _run_beside_server(environment, command, variables, code)
        return _run(environment, command, variables, code)


def _run_mpi(
    environment: Environment,
    settings: Mapping[str, Any],
    variables: Mapping[str, str],
    code: Path,
    program: str,
) -> int:
    """Run the ranks of a group: mpirun on its first host, a daemon on the others."""
    if missing := mpi_start.missing_program():
        failure_file.write_reason(environment.paths, missing)
        return 1
    arguments = hyperparameters.as_arguments(environment.hyperparameters)
    command = mpi_start.script_command(program, arguments)
    with tempfile.TemporaryDirectory(prefix="launcher-mpi-") as shared_memory:
        variables = {
            **variables,
            **mpi_start.variables(environment, command, code, shared_memory),
        }
        exempt: list[int] = []
        if len(environment.cluster.train_group.hosts) > 1:
            outputs: list[Output] = []
            daemons = mpi_start.serve_daemons(environment, variables, exempt, outputs)
            if not environment.cluster.is_leader:
                return _wait_for_mpi(daemons, exempt, outputs)
        start = mpi_start.mpirun(environment, settings)
        return _run(environment, start, variables, environment.paths.library, exempt)


def _run_beside_server(
    environment: Environment, command: list[str], variables: Mapping[str, str], code: Path
) -> int:
    """Run the script beside a parameter server, which serves until the first host's has ended."""
    if missing := tensorflow_start.missing_package():
        failure_file.write_reason(environment.paths, missing)
        return 1
    with tensorflow_start.parameter_server(environment, variables):
        exit_code = _run(environment, command, variables, code)
        stopped = _forward_signals(())
        if exit_code == 0:
            tensorflow_start.wait_for_master(environment, lambda: bool(stopped))
    return exit_code


def _wait_for_mpi(daemons: Daemons, exempt: Sequence[int], outputs: Sequence[Output]) -> int:
    """Wait for the daemon's end; as with the toolkit, the first host alone says what failed."""
    stopped = _forward_signals(exempt)
    while daemons.exit is None and (exempt or not stopped):
        time.sleep(_POLL)
    drain_all(outputs)
    return _TERMINATED if stopped else 0


def _document(paths: MlPaths, settings: Mapping[str, Any], program: str) -> JobDocument:
    """Build the job document: the distribution's group trains, the others run a command.

    Without a distribution, none of several groups leads the others.
    """
    resources = read_config(paths.config / "resourceconfig.json")
    own = resources["current_group_name"]
    named = settings.get("sagemaker_distribution_instance_groups") or [own]
    groups = [group["instance_group_name"] for group in resources["instance_groups"]]
    if len(groups) > 1 and not _has_distribution(settings):
        roles = dict.fromkeys(groups, Role.SCRIPT)
    else:
        roles = dict.fromkeys(groups, Role.COMMAND) | {named[0]: Role.TRAIN}
    return JobDocument(
        roles=roles,
        trainer=TrainerPart(entry_point=program, processes_per_host=_processes(settings)),
    )


def _warn_of_separate_groups(environment: Environment, settings: Mapping[str, Any]) -> None:
    """Warn, once per group, about a distribution that names no group: each group trains alone."""
    cluster = environment.cluster
    is_named = bool(settings.get("sagemaker_distribution_instance_groups"))
    if (
        _has_distribution(settings)
        and not is_named
        and len(cluster.groups) > 1
        and cluster.is_leader
    ):
        emit(
            "distribution_in_every_group",
            groups=[group.name for group in cluster.groups],
            why="the request names no group, so each group trains on its own",
            fix='add "instance_groups": [GROUP] to the distribution; for torch_distributed, SDK v2 '
            "drops it: submit the job with Launcher",
        )


def _has_distribution(settings: Mapping[str, Any]) -> bool:
    return any(settings.get(f"sagemaker_{name}_enabled") for name in _STRATEGIES)


def _processes(settings: Mapping[str, Any]) -> int:
    """Return the number of ranks per host, as the toolkit counts them."""
    requested = settings.get("sagemaker_mpi_num_of_processes_per_host")
    return int(requested or 0) or count_gpus() or count_neurons() or 1


def _variables(environment: Environment, submitted: str) -> dict[str, str]:
    cluster = environment.cluster
    return child_environment(environment) | {
        "SM_MODULE_DIR": submitted,
        # As the PyTorch image sets them for every script.
        "MASTER_ADDR": cluster.address(environment.master),
        "MASTER_PORT": str(_port(environment)),
    }


def _port(environment: Environment) -> int:
    """Return 7777, as in AWS's images; if hosts share ports, offset it by the group's index."""
    names = [group.name for group in environment.cluster.groups]
    index = names.index(environment.cluster.train_group.name)
    is_shared = bool(environment.cluster.addresses)
    return environment.ports.rendezvous + (index if is_shared else 0)


def _unpack(source: str, paths: MlPaths) -> Path:
    """Unpack the archive to /opt/ml/code and return that folder; return a folder unchanged."""
    path = (
        paths.root / Path(source).relative_to(DEFAULT_ML_ROOT)
        if source.startswith(f"{DEFAULT_ML_ROOT}/")
        else Path(source)
    )
    if path.is_dir():
        return path
    with open_archive(path) as archive:
        if problem := space_problem(archive, paths.root):
            raise tarfile.ReadError(problem)
        extract_all(archive, paths.code)
    return paths.code


def _command(
    environment: Environment, settings: Mapping[str, object], code: Path, program: str
) -> list[str]:
    arguments = hyperparameters.as_arguments(environment.hyperparameters)
    cluster = environment.cluster
    is_distributed = bool(settings.get("sagemaker_torch_distributed_enabled"))
    if is_distributed and cluster.host in cluster.train_group.hosts:
        return [sys.executable, *_torchrun(environment), program, *arguments]
    if program.endswith(".py"):
        return [sys.executable, program, *arguments]
    if program.endswith(".sh"):
        return ["/bin/sh", str(code / program), *arguments]
    return [program, *arguments]


def _torchrun(environment: Environment) -> list[str]:
    cluster = environment.cluster
    hosts = cluster.train_group.hosts
    options = [
        "-m",
        "torch.distributed.run",
        f"--nnodes={len(hosts)}",
        f"--nproc_per_node={environment.document.trainer.processes_per_host}",
    ]
    if len(hosts) > 1:
        options += [
            f"--master_addr={cluster.address(cluster.leader)}",
            f"--master_port={_port(environment)}",
            f"--node_rank={cluster.host_rank}",
        ]
    return options


def _search_path(code: Path) -> str:
    """Return PYTHONPATH with the script's folder, and without our package."""
    inherited = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [str(code), inherited, *stand_ins()]))


def _run(
    environment: Environment,
    command: list[str],
    variables: Mapping[str, str],
    folder: Path,
    exempt: list[int] | None = None,
) -> int:
    """Run a command to its end; return the host's exit code.

    exempt: for mpirun, the process groups that get no SIGTERM; its own becomes one.
    """
    output = Output(watch=TakenPortNotice(environment.cluster))
    child = processes.start(command, environment=variables, folder=folder, output=output.write_end)
    if exempt is not None:
        exempt.append(child.pid)
    stopped = _forward_signals(exempt or ())
    output.follow()
    code = child.wait()
    output.drain()
    if code == 0:
        (environment.paths.output / "success").touch()  # as the toolkit does
        return 0
    if stopped:
        return _TERMINATED
    printed = output.last_lines()
    hint = hint_of_taken_port(environment.cluster, printed)
    hint += tensorflow_start.hint_of_fit(variables, printed)
    failure_file.write_reason(environment.paths, _reason(command, code, printed, hint))
    return 1


def _forward_signals(exempt: Collection[int]) -> list[int]:
    """Forward SIGTERM to every process below this one; return the list of received signals.

    exempt: process groups that get none: mpirun and its daemons, which would end all ranks at once,
        although these may be saving their work.
    """
    received: list[int] = []

    def forward(number: int, _frame: object) -> None:
        received.append(number)
        below = descendants(os.getpid())
        signal_all(processes.outside_groups(below, exempt), signal.SIGTERM)

    signal.signal(signal.SIGTERM, forward)
    return received


def _reason(command: list[str], code: int, printed: str, hint: str) -> str:
    """Return the failure text in the format of the toolkit's ExecuteUserScriptError, and a hint."""
    status = processes.shell_code(code)
    lines = printed[printed.rfind(_TRACEBACK) :] if _TRACEBACK in printed else printed
    message = lines.strip()[len(hint) - _MESSAGE_LIMIT :]
    if status == _OUT_OF_MEMORY:
        message = f"OutOfMemory: Process killed by SIGKILL (signal 9)\n{message}"
    return (
        f'ExecuteUserScriptError:\nExitCode {status}\nErrorMessage "{message}"\n'
        f'Command "{shlex.join(command)}"{hint}'
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

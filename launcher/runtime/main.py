"""Run one host, from reading the platform's files to its exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runtime.end import failure_file, job_coordination
from launcher.runtime.end.outcome_decider import SETTLE, JobOutcome
from launcher.runtime.host import event_relay, processes
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.host_usage import report_usage
from launcher.runtime.host.job_host import (
    FAILURE_GRACE,
    HostFailed,
    JobEnded,
    JobHost,
    StopRequested,
)
from launcher.runtime.host.package_versions import report_versions
from launcher.runtime.host.requirements_install import install_requirements
from launcher.runtime.host.secret_reading import read_secrets
from launcher.runtime.host.sm_variables import child_environment
from launcher.runtime.launch import data_role, train_role
from launcher.runtime.launch.engine_interface import data_services
from launcher.runtime.launch.starters.registry import starter_for
from launcher.runtime.launch.supervised_program import run_command, run_script
from launcher.runtime.tensorflow import tf_server
from launcher.shared import (
    EVENTS_VARIABLE,
    HostFailure,
    MlPaths,
    Role,
    kept_elsewhere,
    listed,
    new_files,
    own_mask,
    size_text,
)

ROLES: dict[Role, Callable[[JobHost], None]] = {
    Role.TRAIN: train_role.run_role,
    Role.DATA: data_role.run_role,
    Role.COMMAND: run_command,
    Role.SCRIPT: run_script,
}

#: A shell's exit code for a program that SIGTERM ended.
TERMINATED = 143


def run(root: Path) -> int:
    """Run this host's role and return its exit code.

    0: the job succeeded. 1: this or another host failed. 143: the platform stopped the job.
    """
    paths = MlPaths(root)
    failure_file.reserve_space(paths)
    try:
        with event_relay.events_of_children(paths) as variables:
            return _run_host(paths, variables)
    finally:
        failure_file.mask_users_reason(paths)
        failure_file.release_space(paths)


def _run_host(paths: MlPaths, events: Mapping[str, str]) -> int:
    try:
        read_secrets(os.environ)
        environment = Environment.read(paths)
        run_role = _role(environment)
    except LauncherError as error:
        return _exit_before_joining(paths, error)
    variables = child_environment(environment)
    os.environ.update(variables)  # our own event lines name this host too
    processes.become_init()
    processes.raise_descriptor_limit()
    host = JobHost(environment, job_coordination.join(environment), {**variables, **events})
    try:
        return _run_role(host, run_role)
    finally:
        host.drain()
        host.remove_folders()


def _run_role(host: JobHost, run_role: Callable[[JobHost], None]) -> int:
    environment = host.environment
    host.install_signal_handlers()
    report_usage()
    emit("host_started", role=environment.cluster.group.role.value, pid=os.getpid())
    try:
        install_requirements(host)
        report_versions(host)
        began = time.time()
        run_role(host)
        report_lost_files(environment, began)
    except HostFailed as error:
        return _exit_after_failure(host, error)
    except JobEnded as ended:
        return _exit_after_end(host, ended.outcome)
    except StopRequested:
        emit("host_stopping")
        host.stop()
        return TERMINATED
    host.wait_for_peers(_peer_timeout(environment))
    emit("host_ended", because="done")
    return 0


def _peer_timeout(environment: Environment) -> float:
    """Return the seconds the leader waits for late hosts; a host that was lost never connects."""
    timeout = environment.document.start_timeout
    return min(timeout, 30.0) if environment.host_failure is HostFailure.TOLERATE else timeout


def _role(environment: Environment) -> Callable[[JobHost], None]:
    role = environment.cluster.group.role
    if role in (Role.TRAIN, Role.SCRIPT):
        starter_for(environment.document.trainer.launch)  # rejected before waiting for other hosts
    if environment.is_parameter_server:
        return tf_server.run_role
    if role is Role.COMMAND and environment.command is None:
        name = environment.cluster.group.name
        raise LauncherError(
            f"group {name} has the role 'command', but the job document has no command for it"
        )
    if environment.has_data_service and environment.document.data is None:
        raise LauncherError("there are data hosts, but the job document lists no dataset to serve")
    if environment.has_data_service and environment.document.data is not None:
        data_services(environment.document.data.engine)  # raises if there is none
    if len(environment.cluster.hosts) > 1 and not environment.token:
        raise LauncherError("a job of several hosts needs LAUNCHER_TOKEN in its Environment")
    return ROLES[role]


def _exit_after_end(host: JobHost, outcome: JobOutcome) -> int:
    """Exit because the job has ended; the failed host or the witness writes the failure file."""
    failure = outcome.failure
    name = host.environment.cluster.host
    is_ours = failure is not None and name in (failure.host, failure.witness)
    if failure is not None and is_ours:
        failure.write(host.environment.paths)
    host.wait_for_peers(SETTLE)
    host.end_children(FAILURE_GRACE)
    why = "the job failed" if is_ours else "another host failed"
    emit("host_ended", because=why, origin=str(failure))
    return 1


def _exit_after_failure(host: JobHost, error: HostFailed) -> int:
    """Report the failure; the host that failed first writes the failure file."""
    first = host.coordination.report_failure(error.failure).failure
    emit("host_failed", cause=error.failure.cause, of_rank=error.failure.rank)
    if first is None or host.environment.cluster.host in (first.host, first.witness):
        (first or error.failure).write(host.environment.paths)
    host.wait_for_peers(SETTLE)
    host.end_children(FAILURE_GRACE)
    return 1


def _exit_before_joining(paths: MlPaths, error: LauncherError) -> int:
    with contextlib.suppress(OSError):  # a full disk
        sys.stderr.write(own_mask().text(f"{error}\n"))
    failure_file.write_reason(paths, str(error))
    return 1


#: Folders beside output/data: of Debugger, its profiler, TensorBoard and SageMaker's own metrics.
_STORED_BY_SAGEMAKER = ("metrics", "profiler", "tensorboard", "tensors")


def report_lost_files(environment: Environment, since: float) -> None:
    """Report the new files below /opt/ml if the host that leads the training has left no model.

    since: when its programs began. A platform that reads events itself names those of all hosts.
    """
    paths = environment.paths
    has_model = paths.model.is_dir() and any(paths.model.iterdir())
    if has_model or EVENTS_VARIABLE in os.environ or not environment.cluster.is_leader:
        return
    kept = kept_elsewhere(paths, environment.checkpoint_folder)
    kept |= {paths.output_data.with_name(each) for each in _STORED_BY_SAGEMAKER}
    found = sorted(new_files(paths.root, kept, since), key=lambda file: (-file[1], file[0]))
    if found:
        emit("files_lost", files=listed([f"{path} ({size_text(size)})" for path, size in found]))

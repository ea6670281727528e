"""Run one host, from reading the platform's files to its exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runtime import command_role, failure_file, job_coordination, processes, serve, train
from launcher.runtime.data_services import data_services
from launcher.runtime.environment import Environment
from launcher.runtime.event_log import emit
from launcher.runtime.job_host import FAILURE_GRACE, HostFailed, JobEnded, JobHost, StopRequested
from launcher.runtime.outcome_decider import SETTLE, HostEnd
from launcher.runtime.starters.registry import starter_for
from launcher.runtime.toolkit_variables import child_environment
from launcher.shared import HostFailure, MlPaths, Role

ROLES: dict[Role, Callable[[JobHost], None]] = {
    Role.TRAIN: train.play,
    Role.DATA: serve.play,
    Role.COMMAND: command_role.play,
}

#: A shell's exit code for a program that SIGTERM ended.
TERMINATED = 143


def run(root: Path) -> int:
    """Run this host's role and return its exit code.

    0: this host's part and the job ended well. 1: a failure here or elsewhere. 143: stopped.
    """
    paths = MlPaths(root)
    failure_file.keep_room(paths)
    try:
        return _play(paths)
    finally:
        failure_file.free_room(paths)


def _play(paths: MlPaths) -> int:
    try:
        environment = Environment.read(paths)
        play = _role(environment)
    except LauncherError as error:
        return _fail_early(paths, error)
    variables = child_environment(environment)
    os.environ.update(variables)  # our own event lines name this host too
    processes.become_subreaper()
    processes.raise_descriptor_limit()
    host = JobHost(environment, job_coordination.join(environment), variables)
    host.obey_signals()
    emit("host_started", role=environment.cluster.group.role.value, pid=os.getpid())
    try:
        play(host)
    except HostFailed as error:
        return _fail(host, error)
    except JobEnded as over:
        return _leave(host, over.end)
    except StopRequested:
        emit("host_stopping")
        host.stop()
        return TERMINATED
    host.say_goodbye(_farewell(environment))
    emit("host_ended", because="done")
    return 0


def _farewell(environment: Environment) -> float:
    """Return the seconds the leader waits for late hosts; a host that was lost never connects."""
    patience = environment.document.start_timeout
    return min(patience, 30.0) if environment.host_failure is HostFailure.TOLERATE else patience


def _role(environment: Environment) -> Callable[[JobHost], None]:
    role = environment.cluster.group.role
    if role is Role.TRAIN:
        starter_for(environment.document.trainer.launch)  # refused before others are waited for
    if role is Role.COMMAND and environment.command is None:
        name = environment.cluster.group.name
        raise LauncherError(f"group {name} runs a command, but the job document does not say which")
    if environment.has_data_service and environment.document.data is None:
        raise LauncherError("there are data hosts, but the job document says nothing to serve")
    if environment.has_data_service and environment.document.data is not None:
        data_services(environment.document.data.engine)  # raises if there is none
    if len(environment.cluster.hosts) > 1 and not environment.token:
        raise LauncherError("a job of several hosts needs LAUNCHER_TOKEN in its Environment")
    return ROLES[role]


def _leave(host: JobHost, end: HostEnd) -> int:
    """Exit because the job is over; write the failure file if the failure was found here."""
    found = end.failure
    name = host.environment.cluster.host
    is_ours = found is not None and name in (found.host, found.witness)
    if found is not None and is_ours:
        found.write(host.environment.paths)
    host.say_goodbye(SETTLE)
    host.end_children(FAILURE_GRACE)
    why = "the job failed" if is_ours else "another host failed"
    emit("host_ended", because=why, origin=str(found))
    return 1


def _fail(host: JobHost, error: HostFailed) -> int:
    """Report the failure; the host where it began writes the failure file."""
    end = host.board.failed(error.failure)
    emit("host_failed", cause=error.failure.cause, of_rank=error.failure.rank)
    if end.failure is None or end.failure.host == error.failure.host:
        (end.failure or error.failure).write(host.environment.paths)
    host.say_goodbye(SETTLE)
    host.end_children(FAILURE_GRACE)
    return 1


def _fail_early(paths: MlPaths, error: LauncherError) -> int:
    with contextlib.suppress(OSError):  # a full disk
        sys.stderr.write(f"{error}\n")
    failure_file.write_reason(paths, str(error))
    return 1

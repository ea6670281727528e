"""One attempt at a job: prepares its hosts and runs them until the last one has ended.

A job on spot instances makes another attempt, with new hosts, after each interruption.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.container.job_containers import remove_hosts
from launcher.client.sessions.local.host.host_environment import host_environment
from launcher.client.sessions.local.host.host_folder import (
    HostFolder,
    checkpoint_config,
    write_config,
)
from launcher.client.sessions.local.host.host_logs import new_streams
from launcher.client.sessions.local.host.host_network import HostNetwork
from launcher.client.sessions.local.host.host_python import host_python
from launcher.client.sessions.local.host.host_supervision import HostSupervisor
from launcher.client.sessions.local.host.overlay import Overlay
from launcher.client.sessions.local.host.process_tree import kill_until_none
from launcher.client.sessions.local.host.running_host import RunningHost
from launcher.client.sessions.local.host.toolkit_mode import (
    command_of,
    copy_script,
    mpi_token_variable,
    with_source_inside,
)
from launcher.client.sessions.local.isolation import HostLaunchSpec, StartPlan, plan_start
from launcher.client.sessions.local.job.host_credentials import host_credentials, secret_values
from launcher.client.sessions.local.job.job_description import JobState
from launcher.client.sessions.local.job.job_folder import JobFolder, Settings
from launcher.client.sessions.local.job.job_hosts import LocalHost, divide_gpus, hosts_of
from launcher.client.sessions.local.storage.channel_download import fetch_channels
from launcher.client.sessions.local.storage.checkpoint_sync import CheckpointSync
from launcher.client.sessions.local.storage.input_channels import assign_channels, channels_of
from launcher.client.sessions.local.storage.request_uris import checkpoint_store
from launcher.client.sessions.local.storage.s3_process import S3Process, TransferStopped
from launcher.shared import DEFAULT_ML_ROOT, descendants, visible_gpus

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: MaxRuntimeInSeconds when the request gives none (CreateTrainingJob, StoppingCondition).
_DEFAULT_MAX_SECONDS = 86_400


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of all hosts of a job: its inputs, and the callbacks that report on it.

    s3_process: None for a job that uses nothing in S3.
    overlays: the installed requirements, by group.
    on_training: called when the hosts are prepared.
    on_note, on_download: called with messages before that.
    on_loss: called with a message about files that are not stored.
    The other callbacks: see HostSupervisor.
    """

    folder: JobFolder
    request: TrainingJobRequest
    settings: Settings
    network: HostNetwork
    stop_conditions: StopConditions
    s3_process: S3Process | None
    overlays: Mapping[str, Overlay]
    on_training: Callable[[], None]
    on_note: Callable[[str], None]
    on_loss: Callable[[str], None]
    on_download: Callable[[str], None]
    on_ending: Callable[[JobState], None]
    on_tick: Callable[[], None]
    on_lost: Callable[[RunningHost], None]

    def run(self, scratch: Path) -> HostSupervisor:
        """Prepare the hosts and run the training; kill their remaining processes.

        scratch: a folder for the hosts' temporary folders.
        Raises PlatformError or OSError when they cannot be prepared or started.
        """
        trees = self.trees()
        for tree in trees.values():
            tree.make()
        try:
            fetched = self._fetch()
            copy_script(
                self.request,
                trees.values(),
                self.s3_process,
                self.folder,
                runs_image=self.settings.container is not None,
            )
            checkpoints = self._checkpoints(trees)
        except TransferStopped:
            self.on_ending(JobState.STOPPED)
            return self._supervision([], ending=JobState.STOPPED)
        plans = self._plans(trees, scratch, fetched)
        self.on_training()
        with checkpoints or nullcontext():
            supervision = self._train(trees, plans)
            kill_until_none(partial(descendants, os.getpid()))
            remove_hosts(plan.container for plan in plans.values() if plan.container)
        if checkpoints and checkpoints.outside:
            self.on_loss(_outside_note(checkpoints.outside))
        if checkpoints and checkpoints.problem and supervision.ending is not JobState.FAILED:
            supervision.ending, supervision.problem = JobState.FAILED, checkpoints.problem
        return supervision

    def trees(self) -> dict[LocalHost, HostFolder]:
        """Return the folders of each host."""
        hosts = hosts_of(self.request, self.network)
        return {host: HostFolder(self.folder.hosts / host.name) for host in hosts}

    def _fetch(self) -> dict[str, Path]:
        """Download the channels that are in S3; return their folders by channel name."""
        if self.s3_process is None:
            return {}
        return fetch_channels(
            channels_of(self.request),
            self.s3_process,
            self.folder.fetched,
            note=self.on_note,
            progress=self.on_download,
        )

    def _checkpoints(self, trees: Mapping[LocalHost, HostFolder]) -> CheckpointSync | None:
        """Return the sync of the checkpoint folders, already restored; None for a job without."""
        config = checkpoint_config(self.request)
        if config is None:
            return None
        store = checkpoint_store(config["S3Uri"], self.s3_process, self.folder)
        sync = CheckpointSync(store, config["LocalPath"], trees.values())
        sync.restore()
        return sync

    def _plans(
        self, trees: Mapping[LocalHost, HostFolder], scratch: Path, fetched: Mapping[str, Path]
    ) -> dict[LocalHost, StartPlan]:
        hosts = tuple(trees)
        given = assign_channels(channels_of(self.request), hosts, fetched)
        runs_image = self.settings.container is not None
        seen = with_source_inside(self.request) if runs_image else self.request
        command = command_of(self.request, runs_image=runs_image)
        secret = {
            **mpi_token_variable(self.request),
            **host_credentials(os.environ),
            **secret_values(self.request, os.environ),
        }
        interpreter = host_python(self.settings.python)
        gpus = divide_gpus(hosts, visible_gpus(os.environ))
        if gpus.note:
            self.on_note(gpus.note)
        plans = {}
        for host, tree in trees.items():
            write_config(tree, host, hosts, seen, given[host])
            own_scratch = scratch / host.name
            own_scratch.mkdir()
            overlay = self.overlays.get(host.group)
            launch_spec = HostLaunchSpec(
                host=host,
                hosts=hosts,
                tree=tree,
                scratch=own_scratch,
                command=command,
                environment={
                    **host_environment(
                        self.request,
                        hosts,
                        self.network,
                        tree.path,
                        self.settings,
                        interpreter,
                        overlay,
                        gpus.variables(host),
                    ),
                    **secret,
                },
                channel_mounts=given[host],
                interpreter=interpreter,
                overlay=overlay,
                container=self.settings.container,
            )
            plans[host] = plan_start(launch_spec, self.settings.isolation)
        return plans

    def _train(
        self, trees: Mapping[LocalHost, HostFolder], plans: Mapping[LocalHost, StartPlan]
    ) -> HostSupervisor:
        self.stop_conditions.training_starts()
        streams = new_streams(self.folder, trees, time.time())
        supervision = self._supervision(
            [
                RunningHost(
                    host,
                    trees[host],
                    plan,
                    log=self.folder.log(streams[host]),
                    events=self.folder.events(streams[host]),
                )
                for host, plan in plans.items()
            ]
        )
        supervision.run()
        self.stop_conditions.training_ends()
        return supervision

    def _supervision(
        self, hosts: Sequence[RunningHost], ending: JobState = JobState.COMPLETED
    ) -> HostSupervisor:
        return HostSupervisor(
            hosts=hosts,
            ending=ending,
            requested_end=self.stop_conditions.requested_end,
            grace_seconds=self.settings.stop_grace_seconds,
            host_failure=self.settings.host_failure,
            on_ending=self.on_ending,
            on_tick=self.on_tick,
            on_lost=self.on_lost,
        )


def _outside_note(names: Collection[str]) -> str:
    first = ", ".join(sorted(names)[:3])
    return (
        f"{len(names)} checkpoints are not stored, since they are links out of {DEFAULT_ML_ROOT}, "
        f"or to a folder around theirs: {first}"
    )


@contextmanager
def create_scratch(folder: JobFolder) -> Iterator[Path]:
    """Yield a temporary folder with a short path, linked from the job's folder, for one block."""
    scratch = Path(tempfile.mkdtemp(prefix="launcher-"))
    folder.scratch.symlink_to(scratch)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        folder.scratch.unlink()


class StopConditions:
    """Checks the limits of StoppingCondition and the requests that users leave in the job's folder.

    MaxRuntimeInSeconds limits the training time of all attempts, MaxWaitTimeInSeconds the total.
    """

    def __init__(self, request: TrainingJobRequest, folder: JobFolder) -> None:
        condition = request["StoppingCondition"]
        self._folder = folder
        self._max_seconds: float = condition.get("MaxRuntimeInSeconds", _DEFAULT_MAX_SECONDS)
        wait = condition.get("MaxWaitTimeInSeconds")
        self._wait_deadline = None if wait is None else time.monotonic() + wait
        self._deadline: float | None = None

    def training_starts(self) -> None:
        """Start counting training time: the hosts of an attempt have started."""
        self._deadline = time.monotonic() + self._max_seconds

    def training_ends(self) -> None:
        """Stop counting training time; the rest is left for the next attempt."""
        if self._deadline is not None:
            self._max_seconds = self._deadline - time.monotonic()

    def requested_end(self) -> JobState | None:
        """Return the state that a request or deadline requires; None while the job may continue."""
        now = time.monotonic()
        if self._folder.stop.exists() or not self._folder.path.exists():
            return JobState.STOPPED  # without its folder, the job could no longer be stopped
        # Where both limits are equal, the wait ends first: it began before the training.
        if self._wait_deadline is not None and now > self._wait_deadline:
            return JobState.MAX_WAIT_TIME_EXCEEDED
        if self._deadline is not None and now > self._deadline:
            return JobState.MAX_RUNTIME_EXCEEDED
        return JobState.INTERRUPTED if self._folder.interrupt.exists() else None

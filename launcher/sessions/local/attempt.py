"""One attempt at a job: prepares its hosts and runs them until the last one has ended.

A job on spot instances makes another attempt, with new hosts, after each interruption.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from launcher.sessions.local.channels import channels_of, supplies
from launcher.sessions.local.checkpoints import CheckpointSync
from launcher.sessions.local.clock import Clock
from launcher.sessions.local.cluster import Host, hosts_of
from launcher.sessions.local.courier import Courier, TransferStopped
from launcher.sessions.local.description import State
from launcher.sessions.local.environment import host_environment
from launcher.sessions.local.fetching import fetch_channels
from launcher.sessions.local.folder import JobFolder, Settings
from launcher.sessions.local.isolation import Berth, StartPlan, plan_start
from launcher.sessions.local.logs import new_log_files
from launcher.sessions.local.opt_ml import HostTree, checkpoint_config, write_config
from launcher.sessions.local.places import checkpoint_place
from launcher.sessions.local.processes import descendants, kill_until_none
from launcher.sessions.local.running import RunningHost
from launcher.sessions.local.script_mode import command_of, supply_script
from launcher.sessions.local.supervision import Supervision, Terms
from launcher.sessions.local.wiring import Wiring


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Everything that the hosts of a job are made from, and the callbacks that report on them.

    courier: None for a job that uses nothing in S3.
    on_training: called when the hosts are prepared.
    on_note, on_download: called with messages from before that point.
    The other callbacks: see Supervision.
    """

    folder: JobFolder
    request: Mapping[str, Any]
    settings: Settings
    wiring: Wiring
    clock: Clock
    courier: Courier | None
    on_training: Callable[[], None]
    on_note: Callable[[str], None]
    on_download: Callable[[str], None]
    on_ending: Callable[[State], None]
    on_tick: Callable[[], None]
    on_lost: Callable[[RunningHost], None]

    def run(self) -> Supervision:
        """Prepare the hosts and run the training; no process of theirs is left afterwards.

        Raises PlatformError or OSError when they cannot be prepared or started.
        """
        trees = self.trees()
        for tree in trees.values():
            tree.make()
        try:
            fetched = self._fetch()
            supply_script(self.request, trees.values(), self.courier, self.folder)
        except TransferStopped:
            self.on_ending(State.STOPPED)
            return self._supervision([], ending=State.STOPPED)
        with hold_scratch(self.folder) as scratch:
            checkpoints = self._checkpoints(trees)
            plans = self._plans(trees, scratch, fetched)
            self.on_training()
            with checkpoints or nullcontext():
                supervision = self._train(trees, plans)
                kill_until_none(partial(descendants, os.getpid()))
        if checkpoints and checkpoints.problem and supervision.ending is not State.FAILED:
            supervision.ending, supervision.problem = State.FAILED, checkpoints.problem
        return supervision

    def trees(self) -> dict[Host, HostTree]:
        """Return the folders of each host."""
        hosts = hosts_of(self.request, self.wiring)
        return {host: HostTree(self.folder.hosts / host.name) for host in hosts}

    def _fetch(self) -> dict[str, Path]:
        """Download the channels that are in S3; return their folders by channel name."""
        if self.courier is None:
            return {}
        return fetch_channels(
            channels_of(self.request),
            self.courier,
            self.folder.fetched,
            note=self.on_note,
            progress=self.on_download,
        )

    def _checkpoints(self, trees: Mapping[Host, HostTree]) -> CheckpointSync | None:
        """Return the sync of the checkpoint folders, already restored; None for a job without."""
        config = checkpoint_config(self.request)
        if config is None:
            return None
        place = checkpoint_place(config["S3Uri"], self.courier, self.folder)
        sync = CheckpointSync(place, config["LocalPath"], trees.values())
        sync.restore()
        return sync

    def _plans(
        self, trees: Mapping[Host, HostTree], scratch: Path, fetched: Mapping[str, Path]
    ) -> dict[Host, StartPlan]:
        hosts = tuple(trees)
        given = supplies(channels_of(self.request), hosts, fetched)
        command = command_of(self.request)
        plans = {}
        for host, tree in trees.items():
            write_config(tree, host, hosts, self.request, given[host])
            own_scratch = scratch / host.name
            own_scratch.mkdir()
            berth = Berth(
                host=host,
                hosts=hosts,
                tree=tree,
                scratch=own_scratch,
                command=command,
                environment=host_environment(
                    self.request, hosts, self.wiring, tree.path, self.settings
                ),
                supplies=given[host],
            )
            plans[host] = plan_start(berth, self.settings.isolation)
        return plans

    def _train(
        self, trees: Mapping[Host, HostTree], plans: Mapping[Host, StartPlan]
    ) -> Supervision:
        self.clock.training_starts()
        log_files = new_log_files(self.folder, trees, time.time())
        supervision = self._supervision(
            [RunningHost(host, trees[host], plan, log_files[host]) for host, plan in plans.items()]
        )
        supervision.run()
        self.clock.training_ends()
        return supervision

    def _supervision(
        self, hosts: Sequence[RunningHost], ending: State = State.COMPLETED
    ) -> Supervision:
        return Supervision(
            hosts=hosts,
            ending=ending,
            terms=Terms(
                asked_to_end=self.clock.asked_to_end,
                grace_seconds=self.settings.stop_grace_seconds,
                host_failure=self.settings.host_failure,
            ),
            on_ending=self.on_ending,
            on_tick=self.on_tick,
            on_lost=self.on_lost,
        )


@contextmanager
def hold_scratch(folder: JobFolder) -> Iterator[Path]:
    """Yield a temporary folder with a short path, linked from the job's folder, for one block."""
    scratch = Path(tempfile.mkdtemp(prefix="launcher-"))
    folder.scratch.symlink_to(scratch)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        folder.scratch.unlink()

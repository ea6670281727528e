"""The platform process of one job: `python -m launcher.sessions.local.platform <job folder>`.

It outlives its caller, runs the job from Downloading to its end, and leaves no process behind.
The caller took the job's lock and hands it over as an open descriptor.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from launcher.errors import PlatformError
from launcher.sessions.local.artifacts import pack_artifacts
from launcher.sessions.local.channels import channels_of, supplies
from launcher.sessions.local.checks import not_done
from launcher.sessions.local.cluster import Host, hosts_of
from launcher.sessions.local.description import State
from launcher.sessions.local.environment import host_environment
from launcher.sessions.local.failure import failure_reason
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.isolation import Berth, StartPlan, plan_start
from launcher.sessions.local.logs import log_file
from launcher.sessions.local.metrics import MetricScan
from launcher.sessions.local.opt_ml import HostTree, write_config
from launcher.sessions.local.processes import become_subreaper, descendants, kill_until_none
from launcher.sessions.local.record import Record
from launcher.sessions.local.running import RunningHost
from launcher.sessions.local.slots import hold_slot
from launcher.sessions.local.supervision import Supervision, Terms

#: MaxRuntimeInSeconds when the request gives none (CreateTrainingJob, StoppingCondition).
_DEFAULT_MAX_SECONDS = 86_400


class LocalJob:
    """One job on its way through the states."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.request = folder.request()
        self.settings = folder.settings()
        self.record = Record(folder)
        self.metrics = MetricScan(self.request, folder)

    def run(self) -> None:
        """The job's life; whatever happens, no process of it is left at its end."""
        self.record.note(not_done(self.request))
        try:
            with hold_slot() as slot, hold_scratch(self.folder) as scratch:
                ending, reason = self._run_hosts(slot, scratch)
        except (PlatformError, OSError, ValueError) as error:  # ValueError: a NUL in a variable
            ending, reason = State.FAILED, f"the local platform cannot run the job: {error}"
        finally:
            kill_until_none(partial(descendants, os.getpid()))
        self.record.close(ending, reason)

    def _run_hosts(self, slot: int, scratch: Path) -> tuple[State, str | None]:
        """(ending, reason for a failure)"""
        self.record.enter(State.DOWNLOADING, TrainingStartTime=time.time())
        hosts = hosts_of(self.request, slot)
        trees = {host: HostTree(self.folder.hosts / host.name) for host in hosts}
        plans = self._prepare(hosts, trees, slot, scratch)
        self.record.enter(State.TRAINING)
        supervision = self._train(trees, plans)
        kill_until_none(partial(descendants, os.getpid()))
        self.record.enter(State.UPLOADING, FinalMetricDataList=self.metrics.finish())
        self._publish_notes()
        failed = supervision.ending is State.FAILED
        reason = failure_reason(supervision.failed()) if failed else None
        try:
            artifacts = pack_artifacts(self.request, trees)
        except OSError as error:
            complaint = _not_uploaded(self.request, error)
            self.record.note([complaint])
            return State.FAILED, reason or complaint
        self.record.note(artifacts.notes)
        if artifacts.model is not None and not failed:
            self.record.update(ModelArtifacts={"S3ModelArtifacts": artifacts.model})
        return supervision.ending, reason

    def _prepare(
        self, hosts: Sequence[Host], trees: Mapping[Host, HostTree], slot: int, scratch: Path
    ) -> dict[Host, StartPlan]:
        given = supplies(channels_of(self.request), hosts)
        algorithm = self.request["AlgorithmSpecification"]
        command = [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", ())]
        plans = {}
        for host, tree in trees.items():
            tree.make()
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
                    self.request, hosts, slot, tree.path, self.settings.host_failure
                ),
                supplies=given[host],
            )
            plans[host] = plan_start(berth, self.settings.isolation)
        return plans

    def _train(
        self, trees: Mapping[Host, HostTree], plans: Mapping[Host, StartPlan]
    ) -> Supervision:
        now = time.time()
        supervision = Supervision(
            hosts=[
                RunningHost(host, trees[host], plan, log_file(self.folder, host, now))
                for host, plan in plans.items()
            ],
            terms=Terms(
                max_seconds=self.request["StoppingCondition"].get(
                    "MaxRuntimeInSeconds", _DEFAULT_MAX_SECONDS
                ),
                grace_seconds=self.settings.stop_grace_seconds,
                host_failure=self.settings.host_failure,
                stop_requested=self.folder.stop.exists,
            ),
            on_ending=partial(self.record.enter, State.STOPPING),
            on_tick=self._publish_metrics,
            on_lost=self._note_lost,
        )
        supervision.run()
        return supervision

    def _note_lost(self, lost: RunningHost) -> None:
        how = f"host {lost.host} was lost ({lost.how_it_ended()})"
        self.record.note([f"{how}; the others go on, since host_failure is 'tolerate'"])

    def _publish_metrics(self) -> None:
        if self.metrics.look():
            self.record.update(FinalMetricDataList=self.metrics.values())
        self._publish_notes()

    def _publish_notes(self) -> None:
        notes, self.metrics.notes = self.metrics.notes, []
        self.record.note(notes)


def _not_uploaded(request: Mapping[str, Any], error: OSError) -> str:
    return (
        f"the results cannot be written to {request['OutputDataConfig']['S3OutputPath']}: "
        f"{error.strerror or error}: make room there, or give another output_path"
    )


@contextmanager
def hold_scratch(folder: JobFolder) -> Iterator[Path]:
    """A temporary folder with a short path, for as long as the block runs; the job links to it."""
    scratch = Path(tempfile.mkdtemp(prefix="launcher-"))
    folder.scratch.symlink_to(scratch)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        folder.scratch.unlink()


def main(arguments: Sequence[str]) -> None:
    """Leave the caller, then run the job of a folder."""
    if os.fork():
        # The caller waits for this process only, and is never the parent of the platform.
        os._exit(0)
    become_subreaper()
    folder = JobFolder(Path(arguments[0]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: folder.stop.touch())
    LocalJob(folder).run()


if __name__ == "__main__":
    main(sys.argv[1:])

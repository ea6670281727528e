"""The platform process of one job, started with the job's folder as its argument.

It outlives its caller, runs the job from Downloading to its end, and leaves no process behind. The
caller took the job's lock and passes it on as an open descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.container.container_engine import ContainerEngine
from launcher.client.sessions.local.container.container_image import (
    ImageMissing,
    ensure_image,
    image_notes,
)
from launcher.client.sessions.local.host.host_network import (
    HostNetwork,
    reserve_network,
    share_network,
)
from launcher.client.sessions.local.host.host_supervision import HostSupervisor
from launcher.client.sessions.local.host.line_times import LineTimeRecorder
from launcher.client.sessions.local.host.overlay import Overlay
from launcher.client.sessions.local.host.overlay_install import (
    InstallFailed,
    InstallStopped,
    install_overlays,
)
from launcher.client.sessions.local.host.process_tree import (
    become_subreaper,
    describe_exit,
    kill_until_none,
    processes_of_host,
)
from launcher.client.sessions.local.host.running_host import RunningHost
from launcher.client.sessions.local.job import job_description
from launcher.client.sessions.local.job.attempt import Attempt, StopConditions, create_scratch
from launcher.client.sessions.local.job.failure_reason import failure_reason
from launcher.client.sessions.local.job.host_credentials import secret_mask
from launcher.client.sessions.local.job.job_description import JobState
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.job.log_metrics import MetricScan
from launcher.client.sessions.local.job.orphan_cleanup import fail_orphan
from launcher.client.sessions.local.job.request_checks import ignored_field_notes
from launcher.client.sessions.local.job.restarts import start_next_attempt, with_next_attempt
from launcher.client.sessions.local.job.status_writer import StatusWriter
from launcher.client.sessions.local.storage.channel_download import DownloadFailed, discard_fetched
from launcher.client.sessions.local.storage.file_access import discard_folder
from launcher.client.sessions.local.storage.object_store import S3Failed
from launcher.client.sessions.local.storage.request_uris import needs_s3, results_store
from launcher.client.sessions.local.storage.result_archives import pack_artifacts
from launcher.client.sessions.local.storage.s3_process import S3Process, spawn
from launcher.client.sessions.local.storage.unkept_files import unkept_notes
from launcher.errors import PlatformError
from launcher.shared import PLATFORM_DIED, descendants

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


class LocalJob:
    """Runs one job through its states."""

    def __init__(self, folder: JobFolder, s3_process: S3Process | None) -> None:
        self.folder = folder
        self.s3_process = s3_process
        self.request = folder.request()
        self.settings = folder.settings()
        self.record = StatusWriter(folder)
        self.metrics = MetricScan(self.request, folder)
        self.line_times = LineTimeRecorder(folder.logs)
        self.stop_conditions = StopConditions(self.request, folder)
        self.overlays: Mapping[str, Overlay] = {}
        self.losses: list[str] = []
        if s3_process:
            s3_process.on_note = self._note

    def run(self) -> None:
        """Run the job to its end, and always kill its remaining processes."""
        try:
            self._prepare()  # in this network, which `network` leaves
            with reserve_network(self.folder, self.settings) as network:
                ending, reason = self._run_attempts(network)
        except InstallStopped as stopped:
            self.record.enter(JobState.STOPPING)
            ending, reason = stopped.ending, None
        except (DownloadFailed, InstallFailed, ImageMissing) as error:
            ending, reason = JobState.FAILED, str(error)
        except (PlatformError, OSError, ValueError) as error:  # ValueError: a NUL in a variable
            ending, reason = JobState.FAILED, f"the local platform cannot run the job: {error}"
        finally:
            kill_until_none(partial(descendants, os.getpid()))
            # Commands that `launcher exec` runs in a host are no descendants of this process.
            kill_until_none(partial(processes_of_host, self.folder.hosts))
            self.line_times.sample(is_final=True)
            discard_fetched(self.request, self.folder)
        self.record.close(ending, reason)

    def _run_attempts(self, network: HostNetwork) -> tuple[JobState, str | None]:
        """Run attempts until one is not interrupted; return (ending, reason for a failure)."""
        attempt = self._attempt(network)
        self.record.enter(JobState.DOWNLOADING, TrainingStartTime=time.time())
        while True:
            since = time.time()
            with create_scratch(self.folder) as scratch:
                supervision = attempt.run(scratch)
                is_stopped = self.folder.stop.exists()
                problem = self._network_problem(attempt, supervision)
                is_interrupted = supervision.ending is JobState.INTERRUPTED
                if is_stopped or not (is_interrupted or problem):
                    return self._conclude(attempt, supervision, since)
            if problem:
                attempt = self._attempt(share_network(self.folder, self.settings, problem))
            self._restart()

    def _network_problem(self, attempt: Attempt, supervision: HostSupervisor) -> str | None:
        """Return why a container got no network of its own, if hosts may share one instead."""
        if attempt.network.problem is not None:
            return None
        return next(filter(None, (host.network_problem for host in supervision.ended)), None)

    def _conclude(
        self, attempt: Attempt, supervision: HostSupervisor, since: float
    ) -> tuple[JobState, str | None]:
        """Store the results of the last attempt; return (ending, reason for a failure).

        since: when it began.
        """
        if supervision.ending is JobState.INTERRUPTED:
            self.record.enter(JobState.STOPPING)
            supervision.ending = JobState.STOPPED
        self.record.enter(JobState.UPLOADING, FinalMetricDataList=self.metrics.finish())
        self._publish_notes()
        return self._publish(attempt, supervision, since)

    def _prepare(self) -> None:
        """Make the image of the job's containers present, or the packages of its processes."""
        container = self.settings.container
        self.record.note(ignored_field_notes(self.request, runs_image=container is not None))
        if container is None:
            self.overlays = self._install()
            return
        facts = ensure_image(
            ContainerEngine(program=container.engine),
            container.image,
            requested_end=self.stop_conditions.requested_end,
            on_message=self.record.set_message,
        )
        self.record.update(LocalImage={"Name": container.image, "Digest": facts.digest})
        self.record.note(image_notes(self.request, container, facts))

    def _install(self) -> dict[str, Overlay]:
        """Install the requirements of each group; return their overlays by group."""
        return install_overlays(
            self.request,
            self.folder,
            self.settings,
            self.s3_process,
            requested_end=self.stop_conditions.requested_end,
            on_message=self.record.set_message,
            on_note=self._note,
        )

    def _attempt(self, network: HostNetwork) -> Attempt:
        if network.problem is not None:
            self._note(
                "hosts share one network without a way outside: each has its own address, but two "
                "cannot listen on one port of all addresses. A network for each could not be made: "
                f"{network.problem}"
            )
        return Attempt(
            folder=self.folder,
            request=self.request,
            settings=self.settings,
            network=network,
            stop_conditions=self.stop_conditions,
            s3_process=self.s3_process,
            overlays=self.overlays,
            on_training=partial(self.record.enter, JobState.TRAINING),
            on_note=self._note,
            on_loss=self._note_loss,
            on_download=self.record.set_message,
            on_ending=self._enter_ending,
            on_tick=self._poll_logs,
            on_lost=self._note_lost,
        )

    def _enter_ending(self, ending: JobState) -> None:
        """Record that the hosts are stopped, for the end of the job or for a restart."""
        self.record.enter(ending if ending is JobState.INTERRUPTED else JobState.STOPPING)

    def _restart(self) -> None:
        """Discard the hosts after an interruption, with their disks."""
        self.folder.interrupt.unlink(missing_ok=True)
        gone = self.folder.path / "gone"
        self.folder.hosts.rename(gone)
        discard_folder(gone)
        self.folder.hosts.mkdir()
        self.record.enter(JobState.STARTING)
        self.record.enter(JobState.DOWNLOADING)

    def _publish(
        self, attempt: Attempt, supervision: HostSupervisor, since: float
    ) -> tuple[JobState, str | None]:
        """Pack the results of the hosts; return (ending, reason for a failure)."""
        failed = supervision.ending is JobState.FAILED
        reason = (supervision.problem or self._failure_reason(supervision)) if failed else None
        trees = attempt.trees()
        for tree in trees.values():  # once the reason is known, which may be a full disk
            tree.discard_library()
        try:
            store = results_store(self.request, self.s3_process, self.folder)
            artifacts = pack_artifacts(self.request, trees, store)
        except S3Failed as error:
            error_text = f"cannot store the results: {error}"
            self.record.note([error_text])
            return JobState.FAILED, reason or error_text
        except (OSError, RecursionError) as error:
            error_text = _write_error(self.request, error)
            self.record.note([error_text])
            return JobState.FAILED, reason or error_text
        for note in artifacts.notes:
            self._note_loss(note)
        if not artifacts.has_model:
            self.losses += unkept_notes(
                self.request, trees, has_output=artifacts.has_output, since=since
            )
            self.record.update(LocalLosses=self.losses)
        if artifacts.problem and not failed:
            return JobState.FAILED, artifacts.problem
        if artifacts.model is not None and not failed:
            self.record.update(ModelArtifacts={"S3ModelArtifacts": artifacts.model})
        return supervision.ending, reason

    def _failure_reason(self, supervision: HostSupervisor) -> str:
        failed = supervision.failed()
        self.record.update(LocalExitCode=failed[0].shell_code)
        return failure_reason(failed, secret_mask(self.request))

    def _note(self, text: str) -> None:
        self.record.note([text])

    def _note_loss(self, text: str) -> None:
        self.losses.append(text)
        self.record.update(LocalLosses=self.losses)
        self._note(text)

    def _note_lost(self, lost: RunningHost) -> None:
        how = f"host {lost.host} was lost ({lost.describe_exit()})"
        self.record.note([f"{how}; the others continue, since host_failure is 'tolerate'"])

    def _poll_logs(self) -> None:
        self.line_times.sample()
        if self.metrics.poll():
            self.record.update(FinalMetricDataList=self.metrics.values())
        self._publish_notes()

    def _publish_notes(self) -> None:
        notes, self.metrics.notes = self.metrics.notes, []
        self.record.note(notes)


def _write_error(request: TrainingJobRequest, error: OSError | RecursionError) -> str:
    if isinstance(error, RecursionError) or error.errno == errno.ENAMETOOLONG:
        return (
            "the results are not kept, since a program has nested folders too deeply in "
            "/opt/ml/model or /opt/ml/output/data"
        )
    return (
        f"cannot write the results to {request['OutputDataConfig']['S3OutputPath']}: "
        f"{error.strerror or error}: free space there, or use another output_path"
    )


def main(arguments: Sequence[str]) -> None:
    """Detach from the caller, then run the job of a folder under a watchdog."""
    if os.fork():
        # The caller waits only for this process, and is never the platform's parent.
        os._exit(0)
    folder = JobFolder(Path(arguments[0]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: folder.stop.touch())
    run_with_watchdog(folder, partial(_run, folder))


def _run(folder: JobFolder, s3_process: S3Process | None) -> None:
    _adopt_orphans(folder)
    LocalJob(folder, s3_process).run()


def _adopt_orphans(folder: JobFolder) -> None:
    """Become the parent of what hosts leave behind.

    Not with containers: what an engine leaves in the background serves other jobs, too.
    """
    if folder.settings().container is None:
        become_subreaper()


def run_with_watchdog(folder: JobFolder, run: Callable[[S3Process | None], None]) -> None:
    """Run the job in a child process, and mark the job as failed if the child dies first.

    Afterwards create the next attempt at a job that its policy restarts.

    Both processes hold the job's lock as an open descriptor. A job that uses S3 also has an S3
    process, which exits together with them.
    """
    _adopt_orphans(folder)
    s3_process = spawn(folder) if needs_s3(folder.request()) else None
    platform = os.fork()
    if platform == 0:
        run(s3_process)
        return
    if s3_process:
        s3_process.close()
    _, status = os.waitpid(platform, 0)
    # Processes that the child left behind were reparented to this one.
    kill_until_none(partial(descendants, os.getpid()))
    with contextlib.suppress(PlatformError):  # the job's folder was removed
        if not job_description.is_terminal(folder.status()):
            how = describe_exit(os.waitstatus_to_exitcode(status))
            reason = f"{PLATFORM_DIED} ({how}): see {folder.platform_log}"
            fail_orphan(folder, reason, with_next_attempt)
        start_next_attempt(folder)


if __name__ == "__main__":
    main(sys.argv[1:])

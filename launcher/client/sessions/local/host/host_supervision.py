"""Supervision of the running hosts: wait until all have ended, and terminate them if required."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from launcher.client.sessions.local.host.process_tree import reap_orphans
from launcher.client.sessions.local.host.running_host import RunningHost
from launcher.client.sessions.local.job.job_description import JobState
from launcher.shared import HostFailure

_TICK_SECONDS = 0.05


@dataclass
class HostSupervisor:
    """Watches the hosts of a job until all of them have ended.

    requested_end: returns the state that a user's request or a deadline requires now, if any.
    grace_seconds: between SIGTERM and SIGKILL.
    host_failure: fail the job with one host, or only with its whole group.
    ended: the hosts in the order in which they ended.
    ending: the state that follows.
    problem: the reason if that state is Failed although no host has failed.
    on_ending: called once with the ending, before hosts are stopped, unless one has failed.
    on_tick: called every 50 ms.
    on_lost: called with a failed host that does not end the job.
    """

    hosts: Sequence[RunningHost]
    requested_end: Callable[[], JobState | None]
    grace_seconds: float
    host_failure: HostFailure
    on_ending: Callable[[JobState], None]
    on_tick: Callable[[], None]
    on_lost: Callable[[RunningHost], None]
    ended: list[RunningHost] = field(default_factory=list)
    ending: JobState = JobState.COMPLETED
    problem: str | None = None

    def run(self) -> None:
        """Watch until every host has ended; set `ended` and `ending`."""
        while self._alive():
            ended = self._collect()
            if ending := self._next_ending():
                self._end_all(ending)
            else:
                self._notify_lost(ended)
            self.on_tick()
            time.sleep(_TICK_SECONDS)

    def failed(self) -> list[RunningHost]:
        """Return the hosts whose failure fails the job, in the order in which they ended."""
        failed = [host for host in self.ended if host.exit_code]
        if self.host_failure is HostFailure.FAIL:
            return failed
        living = {host.host.group for host in self.hosts if not host.exit_code}
        return [host for host in failed if host.host.group not in living]

    def _alive(self) -> list[RunningHost]:
        return [host for host in self.hosts if host.exit_code is None]

    def _collect(self) -> list[RunningHost]:
        """Return the hosts that have just ended."""
        reap_orphans({host.pid for host in self._alive()})
        ended = [host for host in self.hosts if host.poll()]
        self.ended += ended
        return ended

    def _notify_lost(self, ended: Sequence[RunningHost]) -> None:
        for host in ended:
            if host.exit_code:
                self.on_lost(host)

    def _next_ending(self) -> JobState | None:
        if self.failed():
            return JobState.FAILED
        return self.requested_end() if self._alive() else None

    def _end_all(self, ending: JobState) -> None:
        """Send SIGTERM to every host, and SIGKILL to those still alive after the grace period."""
        self.ending = ending
        if ending is not JobState.FAILED:
            self.on_ending(ending)
        deadline = time.monotonic() + self.grace_seconds
        unsignalled = self._alive()
        while self._alive():
            unsignalled = [host for host in unsignalled if not host.terminate()]
            if time.monotonic() > deadline:
                for host in self._alive():
                    host.kill()
            self._collect()
            self.on_tick()
            time.sleep(_TICK_SECONDS)

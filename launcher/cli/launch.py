"""What one `launcher run` does with a job's description: prepare, send, follow, try the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.capacity.pursuit import needs_somebody_who_waits, pursue
from launcher.cli.answer import tell_warnings
from launcher.cli.approval import nothing_sent, show_plan
from launcher.cli.ctrl_c import hold_ctrl_c, tell_detached
from launcher.cli.follow import follow, tell_notice, tell_started
from launcher.following.patience import telling_way_back
from launcher.job import Job
from launcher.plan import plan_job
from launcher.request.submission import Submission, prepare
from launcher.sessions.base import Session
from launcher.sessions.submission import create, place, place_offline, send, upload
from launcher.spec import JobSpec


@dataclass(kw_only=True)
class Launch:
    """The jobs of one run, most often one.

    is_offline: nothing is asked of AWS; the job has to say all itself.
    is_left: the user does not stay to follow them, from the start or since Ctrl-C.
    """

    session: Session
    is_local: bool
    is_offline: bool
    max_cost: float | None
    is_left: bool

    def prepare(self, spec: JobSpec, name: str) -> Submission:
        """The request and its files; shows the plan of a job that costs money."""
        if self.is_offline:
            placement = place_offline(spec, name)
        else:
            placement = place(spec, self.session, name)
        submission = prepare(spec, placement)
        tell_warnings(submission.warnings)
        if not self.is_local:
            show_plan(plan_job(spec, self.session, placement), self.max_cost)
        return submission

    def upload(self, submission: Submission) -> Mapping[str, Any]:
        """Store what the request refers to; the request, with the token that its hosts need."""
        upload(submission, self.session)
        return submission.request

    def run(self, spec: JobSpec, name: str, first: Submission) -> Job:
        """The job that got its instances; where the user does not stay, the only one.

        Raises CapacityError when no job that the spec allows got them.
        """
        if self.is_left:
            if warning := needs_somebody_who_waits(spec):
                tell_warnings([warning])
            return self._send(first)

        def attempt(tried: JobSpec, its_name: str) -> Job:
            # what the user has seen and approved is what is sent
            return self._send(first if its_name == name else self.prepare(tried, its_name))

        return pursue(spec, name, attempt, tell=tell_notice)

    def _send(self, submission: Submission) -> Job:
        """Create a job and follow it while the user stays."""
        job = Job(submission.request["TrainingJobName"], self.session)
        if not self.is_local:
            with nothing_sent(job.name):  # it may take long, and need not be held
                upload(submission, self.session)
        with hold_ctrl_c() as is_pressed:
            (send if self.is_local else create)(submission, self.session)
            with telling_way_back(job.name):
                tell_started(job)
        if self.is_left or is_pressed():
            self.is_left = True
            tell_detached(job.name)
        else:
            with telling_way_back(job.name):
                self.is_left = not follow(job)
        return job

"""The steps of `launcher run`: draft, send and follow a job, and restart it by its policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from launcher.client.cli.options.shared_options import gathered
from launcher.client.cli.screen.approval import cancel_on_ctrl_c, show_plan
from launcher.client.cli.screen.ctrl_c import defer_ctrl_c
from launcher.client.cli.screen.job_output import (
    follow_unless_left,
    print_notice,
    print_summary,
    run_in_terminal,
)
from launcher.client.cli.screen.verb_output import echo, print_message, print_warnings
from launcher.client.cli.verb_group import command_line
from launcher.client.jobs import Job, with_resume_hint
from launcher.client.planning import JobAttempt, detached_warnings, diagnose, plan_job, run_attempts
from launcher.client.request import LARGE_SOURCE
from launcher.client.sessions import JobOrigin, Platform, PlatformSession
from launcher.client.spec import JobSpec
from launcher.client.submit import JobDraft, draft_job
from launcher.errors import LauncherError

#: Share of the steps' time, above which the summary says what to change.
_MUCH_WAITING = 0.2


def _origin_of_command() -> JobOrigin:
    return JobOrigin(command_line=command_line())


@dataclass(kw_only=True)
class JobSender:
    """The jobs of one `launcher run`, most often one.

    is_offline: AWS is not called, so a job for AWS names everything. is_left: the user detached.
    verbose: Launcher's own events are shown. origin: for the record of each job.
    """

    session: PlatformSession
    is_offline: bool
    max_cost: float | None
    is_left: bool
    verbose: bool
    origin: JobOrigin = field(default_factory=_origin_of_command)

    def draft(self, spec: JobSpec, name: str, spent: float = 0.0) -> JobDraft:
        """Draft a job, with its warnings; show the plan of one that costs money.

        spent: dollars, by its earlier attempts.
        """
        offline = self.is_offline and self.session.platform.uses_aws
        draft = draft_job(spec, self.session, name, offline=offline, origin=self.origin)
        print_warnings(draft.warnings)
        if self.session.platform.bills:
            left = None if self.max_cost is None else self.max_cost - spent
            show_plan(plan_job(draft.spec, self.session, draft.location), left)
        return draft

    def run(self, first: JobDraft) -> Job:
        """Run the job, and try it again as it says; return the job of the last attempt.

        A user who detached gets the first attempt only. Raises CapacityError when none got any.
        """
        if self.is_left:
            print_warnings(detached_warnings(first.spec, self.session))
            job = self._create(first)
            self._follow(job)
            return job

        def create(attempt: JobAttempt) -> Job:  # first: what the user approved
            if attempt.name == first.name:
                return self._create(first)
            return self._create(self.draft(attempt.spec, attempt.name, attempt.spent))

        return run_attempts(
            first.spec,
            first.name,
            self.session,
            create,
            self._follow,
            notify=print_notice,
            is_left=lambda: self.is_left,
        )

    def debug(self, draft: JobDraft, output: str) -> int:
        """Run a job's one rank in this terminal, and print the summary; return its exit code."""
        with defer_ctrl_c():
            job = draft.send()
        code = run_in_terminal(job)
        ended = self.answer(job, output)
        return ended if code is None else code

    def answer(self, job: Job, output: str) -> int:
        """Print the job's summary, or its name if the user detached; return the exit code."""
        if self.is_left and output == "text":
            echo(job.name)
            return 0
        with with_resume_hint(job.name):
            summary = job.summary(None if self.is_left else print_notice)
        if output == "text" and not self.is_left:
            summary["plan"] = _change_of_waiting_job(job, summary)
        print_summary(summary, output, is_followed=True)
        return 0 if self.is_left else summary["exit_code"]

    def _create(self, draft: JobDraft) -> Job:
        may_take_long = self.session.platform.bills or draft.submission.source_bytes > LARGE_SOURCE
        if may_take_long:
            with cancel_on_ctrl_c(draft.name):
                draft.upload(print_message)
        with defer_ctrl_c() as is_pressed:
            job = draft.create() if may_take_long else draft.send()
        self.is_left = self.is_left or is_pressed()
        return job

    def _follow(self, job: Job) -> None:
        """Follow a job until it ends or the user detaches."""
        self.is_left = follow_unless_left(job, self.is_left, verbose=self.verbose)


def _change_of_waiting_job(job: Job, summary: Mapping[str, Any]) -> str | None:
    """Return the change that a completed job needs whose ranks waited for data; None for others."""
    waited = (summary["data"] or {}).get("wait_share") or 0.0
    if summary["failure"] is not None or waited <= _MUCH_WAITING:
        return None
    try:
        return diagnose(job).change
    except LauncherError:  # the summary stands without it
        return None


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """The wish for a dry run: nothing is sent if `is_wanted`.

    resolve: look up on AWS what the job leaves out. upload: store the job's code.
    """

    is_wanted: bool
    resolve: bool
    upload: bool

    @property
    def is_offline(self) -> bool:
        """True if AWS is not called."""
        return self.is_wanted and not (self.resolve or self.upload)

    def require_aws(self, platform: Platform) -> None:
        """Raise UsageError if what is wanted does not go with a job of this platform."""
        if (self.resolve or self.upload) and not (self.is_wanted and platform.uses_aws):
            raise click.UsageError("--resolve and --upload go with the --dry-run of a job for AWS")


#: --dry-run, --resolve and --upload, which a verb gets as one `dry_run`.
dry_run_options = gathered(
    "dry_run",
    DryRun,
    click.option(
        "--dry-run",
        "is_wanted",
        is_flag=True,
        help="Print the CreateTrainingJob request without sending it.",
    ),
    click.option(
        "--resolve",
        is_flag=True,
        help="With --dry-run: look up unset fields on AWS, and check the resources that the job "
        "names.",
    ),
    click.option(
        "--upload",
        is_flag=True,
        help="With --dry-run: also upload the code, so that any AWS client can send the request.",
    ),
)

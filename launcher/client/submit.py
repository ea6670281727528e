"""The one way from a spec to a job, for CLI and Estimator: draft it, look at it, send it.

draft = draft_job(spec, session, name)
draft.request, draft.warnings   # the dry run
job = draft.send()
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from launcher.client import doctor, jobs
from launcher.client.request import LARGE_SOURCE, Submission, content_hash
from launcher.client.sessions import (
    JobOrigin,
    PlacedJob,
    PlatformSession,
    RestartsJobs,
    bucket_and_key,
    new_record,
    place_job,
    write_record,
)
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, JobNotFound, Problem, SpecError
from launcher.shared import BUNDLE_FILE

Notify = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class JobDraft(PlacedJob):
    """A job that is not sent yet; what a dry run shows of it is what `send` sends.

    unmet_needs: warnings of what the job's hosts will miss on this machine.
    origin: what its record says beside the job itself.
    """

    unmet_needs: tuple[str, ...] = ()
    origin: JobOrigin

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages for the user to read before the job is sent."""
        return (*super().warnings, *self.unmet_needs)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The reasons to ask the user before the source is sent; none if it stays here."""
        return () if self.session.platform.reads_files else self.submission.doubts

    def upload(self, notify: Notify | None = None) -> None:
        """Store what the request refers to; afterwards any client may send it. See `upload`."""
        jobs.load_trackers(self.spec)
        with self.naming_fields():
            upload(self.submission, self.session, notify)

    def create(self) -> jobs.Job:
        """Create the job, whose objects are stored, and record how it was made. See `create`."""
        created = datetime.now(timezone.utc)
        record = new_record(self.spec, self.origin, self.location.code_uri)
        if self.spec.retry:  # so that whoever sends it again finds what this process may not record
            with contextlib.suppress(JobNotFound):  # a session that keeps it beside the job
                write_record(self.session, self.name, record)
        session = self.session
        if self.spec.retry and isinstance(session, RestartsJobs):
            session = session.with_retry(self.spec.retry)
        create(self.submission, session)
        write_record(self.session, self.name, record)
        return jobs.Job(self.name, self.session, tracking=self.spec.tracking, created=created)

    def send(self, notify: Notify | None = None) -> jobs.Job:
        """Upload, then create. See `send`."""
        self.upload(notify)
        return self.create()


def source_problem(doubts: Sequence[str], consent: str) -> Problem:
    """Return the problem of a source that may have been chosen by mistake.

    consent: the words that send it all the same.
    """
    fix = f"give the folder of the code as source_dir; or {consent}"
    return Problem(what="; ".join(doubts), where="source_dir", fix=fix)


def draft_job(
    spec: JobSpec,
    session: PlatformSession,
    name: str,
    *,
    offline: bool = False,
    origin: JobOrigin | None = None,
) -> JobDraft:
    """Draft the job of a spec on a session, and check all that needs no network.

    offline: do not call the session, which is SageMaker's; the spec must then name everything.
    origin: for the job's record; default: this process.

    Raises SpecError with every problem.
    """
    placed = place_job(spec, session, name, offline=offline)
    if placed.spec.tracking is not None:  # few jobs import trackers
        jobs.check_trackers(placed.spec)
    platform = session.platform
    needs = [] if platform.runs_image else [*doctor.unmet_needs(spec, platform.python)]
    if not platform.installs and not platform.runs_image:
        needs += doctor.missing_requirements(spec, platform.python)
    made = (origin or JobOrigin()).completed(placed.spec)
    return JobDraft(**vars(placed), unmet_needs=tuple(needs), origin=made)


def send(submission: Submission, session: PlatformSession) -> None:
    """Upload what the request refers to, then create the job.

    Before anything is uploaded, raises SpecError for a name that was used before (its job's code
    would be overwritten), and the session's own error for a request that it cannot run.
    """
    upload(submission, session)
    create(submission, session)


def create(submission: Submission, session: PlatformSession) -> None:
    """Create the job, whose objects are stored; an error lists the objects that are left behind."""
    try:
        session.create_training_job(**submission.request)
    except CloudError as error:
        for uri in submission.objects:
            error.add(f"  {_fate(error)}: {uri}")
        raise


def _fate(error: CloudError) -> str:
    """Describe an uploaded object after a failure; another job of the same name may use it now."""
    return "may be that job's now" if error.code == "ResourceInUse" else "left behind"


def upload(submission: Submission, session: PlatformSession, notify: Notify | None = None) -> None:
    """Store what the request refers to, so that sending the request is enough to create the job.

    Objects in the output's bucket are encrypted with the output's key. The bundle is often
    identical to the previous job's, and is then not uploaded again. Raises as `send` does.

    notify: called with what there is to say about a large source, which takes its time.
    """
    _refuse_used(submission.request["TrainingJobName"], session)
    session.check_training_job(submission.request, submission.objects.keys())
    output = submission.request["OutputDataConfig"]
    with submission.written(_tenths("packing the source", notify)) as contents:
        for uri, content in contents.items():
            shared = _shared_uri(uri, content) if uri.endswith(f"/{BUNDLE_FILE}") else None
            own_bucket = bucket_and_key(uri)[0] == bucket_and_key(output["S3OutputPath"])[0]
            kms_key = output.get("KmsKeyId") if own_bucket else None
            progress = _tenths("storing the source", notify)
            session.upload(content, uri, shared=shared, kms_key=kms_key, progress=progress)


def _tenths(what: str, notify: Notify | None) -> Callable[[int, int | None], None] | None:
    """Return what counts the bytes of one step, and says of a large one how far it is."""
    reported = -1

    def count(done: int, total: int | None) -> None:
        nonlocal reported
        if notify and total and total > LARGE_SOURCE and done * 10 // total > reported:
            reported = done * 10 // total
            notify(f"{what}: {done >> 20:,} of {total >> 20:,} MiB")

    return count if notify else None


def _shared_uri(uri: str, content: bytes | Path) -> str:
    """Return a bundle's URI for all jobs: <code location>/bundles/, beside <job name>/code/."""
    code_location = uri.rsplit("/", 3)[0]
    return f"{code_location}/bundles/{content_hash(content)}.tar.gz"


def is_used(name: str, session: PlatformSession) -> bool:
    """Return whether a session has a job of this name, also one that has ended."""
    try:
        session.describe_training_job(TrainingJobName=name)
    except JobNotFound:
        return False
    return True


def _refuse_used(name: str, session: PlatformSession) -> None:
    if not is_used(name, session):
        return
    what = f"the name {name!r} was used for a job before"
    raise SpecError([Problem(what=what, where="job name", fix="give another name, or none")])

"""Send a prepared job: upload its objects, then create it. CLI and Estimator both end here."""

from __future__ import annotations

import hashlib

from launcher.client.request.prepared import Submission
from launcher.client.sessions.base import PlatformSession
from launcher.client.sessions.s3_uris import bucket_and_key
from launcher.errors import CloudError, JobNotFound, Problem, SpecError
from launcher.shared import BUNDLE_FILE


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


def upload(submission: Submission, session: PlatformSession) -> None:
    """Store what the request refers to, so that sending the request is enough to create the job.

    Objects in the output's bucket are encrypted with the output's key. The bundle is often
    identical to the previous job's, and is then not uploaded again. Raises as `send` does.
    """
    _refuse_used(submission.request["TrainingJobName"], session)
    session.check_training_job(submission.request, submission.objects.keys())
    output = submission.request["OutputDataConfig"]
    for uri, content in submission.objects.items():
        shared = _shared_uri(uri, content) if uri.endswith(f"/{BUNDLE_FILE}") else None
        own_bucket = bucket_and_key(uri)[0] == bucket_and_key(output["S3OutputPath"])[0]
        kms_key = output.get("KmsKeyId") if own_bucket else None
        session.upload(content, uri, shared=shared, kms_key=kms_key)


def _shared_uri(uri: str, content: bytes) -> str:
    """Return a bundle's URI for all jobs: <code location>/bundles/, beside <job name>/code/."""
    code_location = uri.rsplit("/", 3)[0]
    return f"{code_location}/bundles/{hashlib.sha256(content).hexdigest()}.tar.gz"


def _refuse_used(name: str, session: PlatformSession) -> None:
    try:
        session.describe_training_job(TrainingJobName=name)
    except JobNotFound:
        return
    what = f"the name {name!r} was used for a job before"
    raise SpecError([Problem(what=what, where="job name", fix="give another name, or none")])

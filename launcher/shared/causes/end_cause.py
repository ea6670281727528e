"""The causes for which a failed job may be restarted, and the words by which they are known.

Hosts and the local platform report a loss in the words below; AWS's are those of FailureReason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

HOST_LOST, OUT_OF_CAPACITY, SPOT = RETRY_CAUSES = ("host_lost", "out_of_capacity", "spot")
#: Words of hosts for the loss of one, and of the local platform for that of all.
HOST_DIED = "the host died"
NOT_JOINED = "the host has not joined the job"
NO_ANSWER = "does not answer any more"
NOBODY_ANSWERS = "no other host answers any more"
SILENT = "its connection is open, but it has sent nothing"
PLATFORM_DIED = "the local platform process died"
MACHINE_RESTARTED = "this machine was restarted while the job ran"
#: The ends of a script by a code of its own, as its host reports them.
EXIT_CODE = r"(?:the script called sys\.exit\(|exit code )(?P<code>[1-9]\d*)\)?$"

_REPORTED = re.compile(r"host algo-[1-9]\d* \([^)]*\)(?:, rank \d+)?: (?P<cause>[^\n]*)")
#: Of a host's first process; hosts report a SIGKILL of another one with what is known of memory.
_KILLED = re.compile(r"host algo-[1-9]\d* \([^)]*\): killed by SIGKILL\Z")
#: At the beginning of a cause: an exception may have the same words behind its name.
_LOSS = re.compile(
    r"(?:it |the leader algo-[1-9]\d* )?"
    f"(?:{'|'.join((HOST_DIED, NOT_JOINED, NO_ANSWER, NOBODY_ANSWERS, SILENT))})"
)
#: AWS's words for an error of its own, such as the loss of an instance; and for want of instances.
_OWN_ERRORS = ("InternalServerError", PLATFORM_DIED, MACHINE_RESTARTED)
_SHORTAGES = ("CapacityError", "Unable to provision requested ML compute capacity")
_PLATFORMS_CODE = re.compile(r", exit code: (\d+)\s*\Z")


def end_cause(description: TrainingJobDescription) -> str | int | None:
    """Return the cause of a job's end as a policy of restarts names it; an exit code is a number.

    None for any other end, such as an exception of the script, a stop, or the time limit.
    """
    reason = str(description.get("FailureReason", ""))
    states = [change["Status"] for change in description.get("SecondaryStatusTransitions", ())]
    if description["SecondaryStatus"] == "MaxWaitTimeExceeded":
        return SPOT if "Interrupted" in states or "Training" not in states else None
    if description["TrainingJobStatus"] != "Failed":
        return None
    if any(text in reason for text in _SHORTAGES):
        return None if "Training" in states else OUT_OF_CAPACITY
    if reason.startswith(_OWN_ERRORS) or _KILLED.search(reason):
        return HOST_LOST
    if found := _REPORTED.search(reason):
        if _LOSS.match(found["cause"]):
            return HOST_LOST
        code = re.match(EXIT_CODE, found["cause"])
        return int(code["code"]) if code else None
    ended = _PLATFORMS_CODE.search(reason)
    return int(ended[1]) if ended else description.get("LocalExitCode")


def cause_text(cause: str | int | None) -> str:
    """Return a cause of `end_cause` in words."""
    return f"exit code {cause}" if isinstance(cause, int) else str(cause)

"""Every error that Launcher raises, in one tree.

Eight are public names of `launcher`, marked *: what a script that makes jobs can act on. The others
are kinds of these, by which Launcher itself decides, and what is raised inside a job.

LauncherError *                   exit code
├── SpecError *                   2   the job's description is wrong; lists every problem
├── PlatformError *               2   this machine cannot do what was requested
│   └── RequestRefused                it cannot run this request; lists every problem
├── JobNotFound *                 2   there is no job of that name
├── JobFailed *                   1   the job ended as Failed
├── JobStopped *                  3   the job ended as Stopped
│   └── NotSent                       the user declined before the job was submitted
├── StillRunning *                124 the job had not ended when a wait for it was over
├── CloudError *                  4   credentials, permissions, or an answer of AWS
│   ├── Refused                       AWS answered with an error; keeps its code and request id
│   │   └── LogNotFound               a log stream that was there is not found
│   ├── Unreachable                   no answer: the network is down or AWS is silent
│   ├── CredentialsExpired            the credentials were valid and must be renewed
│   └── CapacityError             5   AWS has no instance of the type now
└── RuntimeFault                  1   raised inside a job
    ├── ContractError                 the platform's files or the job document are invalid
    ├── ParallelError                 a model cannot be trained in parallel, or not exactly
    └── DataError                     the data service or the loader
        ├── DataServiceUnavailable    a declared data service cannot be reached or went away
        ├── AuthenticationError       the other side does not know the job's token
        ├── WireError                 bytes that are not the protocol
        └── SampleError               the user's dataset raised; carries the remote traceback
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

#: A field of a job or a request: ("instance_groups", 1, "instance_count").
FieldPath = tuple[str | int, ...]
#: Formats a field's location: "instance_groups[1].instance_count", or "job.yaml:7 (...)".
Where = Callable[[FieldPath], str]


def dotted(path: FieldPath) -> str:
    """Return the field path in Python notation.

    >>> dotted(("instance_groups", 1, "instance_count"))
    'instance_groups[1].instance_count'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "the specification"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem of a job or a request, its location, and how to fix it.

    path: the field that is wrong. about: other fields that the problem depends on.
    where: the location as text; by default the path in Python notation.
    is_warning: the job may run despite the problem.
    """

    what: str
    fix: str
    path: FieldPath = ()
    about: tuple[FieldPath, ...] = ()
    where: str = ""
    is_warning: bool = False

    def __post_init__(self) -> None:
        if not self.where:
            object.__setattr__(self, "where", dotted(self.path))

    def __str__(self) -> str:
        return f"error: {self.what}\n  where: {self.where}\n  fix: {self.fix}"

    @property
    def in_one_line(self) -> str:
        """The problem on one line, as warnings are shown."""
        return f"{self.what} ({self.where}): {self.fix}"

    def located(self, where: Where) -> Problem:
        """Return a copy whose location is formatted by `where`."""
        return replace(self, where=where(self.path))

    def depends_on(self, fields: Iterable[FieldPath]) -> bool:
        """Return whether the problem depends on one of the fields, or one inside or around it."""
        return any(
            path[: len(field)] == field or field[: len(path)] == path
            for path in (self.path, *self.about)
            for field in fields
        )


class LauncherError(Exception):
    """The root of the tree; `exit_code` is the command line's exit code for it."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Return the traceback for a notebook, which asks errors for it: without our frames.

        Those of the errors that have caused this one follow, as far as they are the user's.
        """
        lines: list[str] = []
        error: BaseException | None = self
        while error is not None:
            frames = _users_frames(error)
            if frames or error is self:
                lines += [*(["caused by:"] if lines else []), *"".join(frames).splitlines()]
                text = f"{type(error).__name__}: {error}"
                # a sample's error has its cause's traceback as text, for other processes
                lines += (text.partition(_TRACEBACK)[0] if error.__cause__ else text).splitlines()
            error = error.__cause__
        return lines


_TRACEBACK = "\nTraceback (most recent call last):"


def _users_frames(error: BaseException) -> list[str]:
    """Return the frames of an error as Python prints them, without ours and the notebook's."""
    import traceback  # only notebooks need it

    hidden = (f"{os.path.dirname(__file__)}{os.sep}", f"{os.sep}IPython{os.sep}")  # noqa: PTH120
    frames = traceback.extract_tb(error.__traceback__)
    return traceback.format_list(
        [each for each in frames if not any(part in each.filename for part in hidden)]
    )


class SpecError(LauncherError):
    """The job's description is wrong. `problems` lists every problem that was found."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PlatformError(LauncherError):
    """This machine cannot do what was requested."""

    exit_code = 2


class RequestRefused(PlatformError):
    """A platform cannot run a request. `problems` lists every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class JobNotFound(LauncherError):
    """The session has no job of that name."""

    exit_code = 2


class JobFailed(LauncherError):
    """The job ended as Failed.

    reason: its FailureReason.
    host: where the failure began, None if unknown.
    last_lines: what that host printed last.
    report: the cause as a person reads it.
    """

    exit_code = 1

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        host: str | None = None,
        last_lines: Iterable[str] = (),
        report: str | None = None,
    ) -> None:
        self.name = name
        self.reason = reason
        self.host = host
        self.last_lines = tuple(last_lines)
        of_host = f" --host {host}" if host else ""
        super().__init__(
            f"job {name} failed: {report or reason}\nsee: launcher logs {name}{of_host}"
        )


class JobStopped(LauncherError):
    """The job ended as Stopped."""

    exit_code = 3

    def __init__(self, name: str, secondary_status: str) -> None:
        self.name = name
        self.secondary_status = secondary_status
        super().__init__(f"job {name} was stopped ({secondary_status})")


class StillRunning(LauncherError):
    """A job had not ended when a wait for it was over; it is still running."""

    exit_code = 124  # that of timeout(1)


class NotSent(JobStopped):
    """The user declined, or pressed Ctrl-C, before the job was submitted."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "NotSent")
        self.args = (f"job {name} was not sent; nothing was created",)


class CloudError(LauncherError):
    """AWS refused, could not be reached, or cannot be asked with the current configuration.

    code, request_id: AWS's own, if AWS has answered.
    """

    exit_code = 4

    def __init__(
        self, message: str, *, code: str | None = None, request_id: str | None = None
    ) -> None:
        self.code = code
        self.request_id = request_id
        super().__init__(message)

    @property
    def headline(self) -> str:
        """The first line of the message: what is wrong, without how to fix it."""
        return str(self).partition("\n")[0]

    def add(self, line: str) -> None:
        """Append a line to the message."""
        self.args = (f"{self}\n{line}",)


class Refused(CloudError):
    """AWS answered with an error."""


class LogNotFound(Refused):
    """A stream of a job's log, which the session had listed, is not found."""


class Unreachable(CloudError):
    """AWS did not answer; the request may or may not have arrived."""


class CredentialsExpired(CloudError):
    """The credentials were valid and must be renewed; the next call reads them again."""


class CapacityError(CloudError):
    """AWS has no instance of the requested type at the moment."""

    exit_code = 5


class RuntimeFault(LauncherError):
    """A fault inside a running job."""


class ContractError(RuntimeFault):
    """The platform's files or the job document are invalid."""


class ParallelError(RuntimeFault):
    """The requested parallel training is impossible, or would not be exact."""


class DataError(RuntimeFault):
    """The data service or the loader cannot do its work.

    type_names: the classes of the error that user code raised, its own first; () where none did. An
        error is also of the first of these classes that its process knows.
    """

    type_names: tuple[str, ...] = ()


class DataServiceUnavailable(DataError):
    """A data service was declared for this job but cannot be reached or went away."""


class AuthenticationError(DataError):
    """The other side of a connection does not know the job's token."""


class WireError(DataError):
    """Received bytes that are not the data service's protocol."""


class SampleError(DataError):
    """The user's dataset raised while a batch was prepared."""

    def __init__(self, message: str, *, index: int | None, remote_traceback: str) -> None:
        self.index = index
        self.remote_traceback = remote_traceback
        super().__init__(f"{message}\n{remote_traceback}")


#: Kinds that `launcher` has under these names, too, as when they were among its public ones.
KINDS: dict[str, type[LauncherError]] = {
    kind.__name__: kind
    for kind in (
        *(RequestRefused, NotSent, Refused, LogNotFound, Unreachable, CredentialsExpired),
        *(CapacityError, RuntimeFault, ContractError, ParallelError, DataError),
        *(DataServiceUnavailable, AuthenticationError, WireError, SampleError),
    )
}

"""A session that is given by the caller: one of ours, or ours in place of a `sagemaker` session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.sessions.base import PlatformSession, is_session
from launcher.client.sessions.registry import local_session
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from launcher.client.sessions.aws.aws_session import AwsSession

#: Attributes by which a session of the sagemaker package is known.
_FOREIGN = ("boto_session", "local_mode")


def own_session(given: object, *, local: bool) -> PlatformSession | None:
    """Return the given session if it is one of ours, this machine's if `local`, or else None.

    Raises SpecError for an object that is no session of either package.
    """
    if is_session(given):
        return given
    _refuse_others(given)
    return local_session() if local else None


def aws_session(given: object) -> AwsSession:
    """Return an AWS session that uses the boto3 session of a given `sagemaker` Session, if any."""
    from launcher.client.sessions.aws.aws_session import AwsSession  # boto3 is loaded only for AWS

    return AwsSession(
        getattr(given, "boto_region_name", None),
        boto_session=getattr(given, "boto_session", None),
        default_bucket=getattr(given, "_default_bucket_name_override", None),
        default_bucket_prefix=getattr(given, "default_bucket_prefix", None),
    )


def _refuse_others(given: object) -> None:
    """Refuse what is no session: without its credentials, the job would run in another account."""
    is_foreign = any(getattr(given, name, None) is not None for name in _FOREIGN)
    if given is None or (is_foreign and not isinstance(given, type)):
        return
    fix = "give LocalSession(), AwsSession(boto_session=...) or a Session of the sagemaker package"
    if isinstance(given, type):
        name = given.__name__
        what, fix = f"{name} is a class", f"write {name}(), which makes a session"
    elif isinstance(given, str):
        what = f'"{given}" is not a session'
    else:
        what = f"an object of the class {type(given).__name__} is not a session"
    raise SpecError([Problem(what=what, where="sagemaker_session", fix=fix)])


def is_local_mode(given: object) -> bool:
    """Return whether a session of the sagemaker package is its LocalSession."""
    return bool(getattr(given, "local_mode", False))

"""The sessions by name: Launcher's own, one line each, and those of installed packages.

A package adds a session through the entry point group `launcher.sessions`:

    [project.entry-points."launcher.sessions"]
    attic = "attic.session:AtticSession"

A caller may also give a session as an object: one of these, or one of the `sagemaker` package,
whose place one of ours takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from launcher.client.entry_points import load
from launcher.client.sessions.base import PlatformSession, is_session
from launcher.errors import PlatformError, Problem, SpecError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from launcher.client.sessions.aws.aws_session import AwsSession
    from launcher.client.sessions.local import LocalSession


#: The entry point group of other packages' sessions.
GROUP = "launcher.sessions"

#: Launcher's own: where the class of each is. They take precedence over entry points.
_OWN = {
    "local": "launcher.client.sessions.local:LocalSession",
    "aws": "launcher.client.sessions.aws.aws_session:AwsSession",
    "memory": "launcher.client.sessions.memory_session:MemorySession",
}


def session_names() -> list[str]:
    """Return the names of all sessions, Launcher's own first."""
    return [*_OWN, *other_session_names()]


def other_session_names() -> list[str]:
    """Return the names of the sessions that installed packages bring."""
    return list(dict.fromkeys(point.name for point in _entry_points() if point.name not in _OWN))


def open_session(name: str, **options: object) -> PlatformSession:
    """Return a new session by its name in the registry; the options are those of its class.

    Raises PlatformError for an unknown name, and for an entry point that cannot be loaded or makes
    no session.
    """
    if name in _OWN:
        module, _, attribute = _OWN[name].partition(":")
        own: PlatformSession = getattr(import_module(module), attribute)(**options)
        return own
    point = next((each for each in _entry_points() if each.name == name), None)
    if point is None:
        raise PlatformError(
            f"there is no session {name!r}: the sessions are {', '.join(session_names())}; another "
            f"package adds one through the entry point group {GROUP}"
        )
    session: PlatformSession = load(point)(**options)
    if not is_session(session):
        raise PlatformError(
            f"the entry point {name} = {point.value} makes no session: its `platform` must be a "
            "launcher.client.sessions.base.Platform"
        )
    return session


def local_session() -> LocalSession:
    """Return a new session of this machine; it does not import boto3."""
    from launcher.client.sessions.local import LocalSession  # slow; few verbs need it

    return LocalSession()


def _entry_points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # slow; only for other packages' sessions

    return list(entry_points(group=GROUP))


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

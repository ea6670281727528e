"""The one access key that the endpoint takes; kept in its root, so that a restart keeps it."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from launcher.errors import PlatformError
from launcher.sessions.local.files import read_json, write_json, writing


@dataclass(frozen=True, kw_only=True)
class AccessKey:
    """id: travels with every request; secret: signs it, and is not printed by repr."""

    id: str
    secret: str = field(repr=False)


def new_access_key() -> AccessKey:
    """A random key of AWS's form; "LOCAL" tells it from a real one."""
    return AccessKey(
        id="AKIALOCAL" + secrets.token_hex(6).upper()[:11], secret=secrets.token_hex(20)
    )


def parse_access_key(text: str) -> AccessKey:
    """The key that a user gives as ID:SECRET."""
    key_id, _, secret = text.partition(":")
    if not key_id.isalnum() or len(key_id) < 16 or len(secret) < 16:
        raise PlatformError(
            "an access key is ID:SECRET, an id of 16 letters and digits or more and a secret of 16 "
            "characters or more"
        )
    return AccessKey(id=key_id, secret=secret)


def kept_access_key(root: Path, given: AccessKey | None = None) -> AccessKey:
    """The given key, or the one that the root has, or a new one; it is kept for the next start."""
    file = root / "access-key.json"
    if given is None and file.exists():
        return AccessKey(**read_json(file))
    key = given or new_access_key()
    with writing(root):
        write_json(file, asdict(key))  # mkstemp's mode: nobody else reads it
    return key

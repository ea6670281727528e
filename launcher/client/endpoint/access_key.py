"""The single access key that the endpoint accepts; stored in its root to survive restarts."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from launcher.client.sessions.local.atomic_files import read_json, write_json
from launcher.client.sessions.local.file_access import translate_write_errors
from launcher.errors import PlatformError


@dataclass(frozen=True, kw_only=True)
class AccessKey:
    """An access key.

    id: travels with every request; secret: signs it, and is omitted from repr.
    """

    id: str
    secret: str = field(repr=False)


def new_access_key() -> AccessKey:
    """Return a random key of AWS's form; "LOCAL" distinguishes it from a real one."""
    return AccessKey(
        id="AKIALOCAL" + secrets.token_hex(6).upper()[:11], secret=secrets.token_hex(20)
    )


def parse_access_key(text: str) -> AccessKey:
    """Parse a user's key, given as ID:SECRET; raise PlatformError for another form."""
    key_id, _, secret = text.partition(":")
    if not key_id.isalnum() or len(key_id) < 16 or len(secret) < 16:
        raise PlatformError(
            "an access key has the form ID:SECRET, an id of at least 16 letters and digits, and a "
            "secret of at least 16 characters"
        )
    return AccessKey(id=key_id, secret=secret)


def load_access_key(root: Path, given: AccessKey | None = None) -> AccessKey:
    """Return the given key, else the root's, else a new one; store it for the next start."""
    file = root / "access-key.json"
    if given is None and file.exists():
        return AccessKey(**read_json(file))
    key = given or new_access_key()
    with translate_write_errors(root):
        write_json(file, asdict(key))  # created with mkstemp's mode: private to the user
    return key

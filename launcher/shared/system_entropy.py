"""Entropy of the operating system, by a reference that nothing replaces afterwards.

Dataset code may be given other numbers in place of the system's (`launcher.data.repeatable`).
Tokens, nonces and names of Launcher's own are made here.
"""

from __future__ import annotations

import os

#: os.urandom as it was when this module was imported.
urandom = os.urandom


def token_hex(size: int) -> str:
    """Return `size` random bytes as a hexadecimal text, like `secrets.token_hex`."""
    return urandom(size).hex()

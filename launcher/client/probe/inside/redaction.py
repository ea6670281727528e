"""Redaction of secrets and account numbers, so that the answers may be published."""

from __future__ import annotations

import json
import re
from typing import Any

REDACTED = "<redacted>"
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")


def redacted(value: object, name: str = "") -> Any:
    """Return the value with secrets removed; `name` is its key, which may mark it as a secret."""
    if _SECRET.search(name):
        return REDACTED
    if isinstance(value, dict):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Redact a text, which may itself hold JSON, as SM_* variables do."""
    if text[:1] in ("{", "["):
        try:
            return json.dumps(redacted(json.loads(text)))
        except ValueError:
            pass  # not JSON after all
    return _ACCOUNT.sub("<account>", text)

"""Answers may be shown to anybody: secrets and account numbers are taken out."""

from __future__ import annotations

import json
import re
from typing import Any

REDACTED = "<redacted>"
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")


def redacted(value: Any, name: str = "") -> Any:
    """The value as it may be shown, `name` being what it is called where it stands."""
    if _SECRET.search(name):
        return REDACTED
    if isinstance(value, dict):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """A text may hold JSON, as SM_* variables do."""
    if text[:1] in ("{", "["):
        try:
            return json.dumps(redacted(json.loads(text)))
        except ValueError:
            pass  # it only looked like JSON
    return _ACCOUNT.sub("<account>", text)

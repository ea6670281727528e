"""What a page shows, read from its HTML as the page's own script reads it."""

from __future__ import annotations

import json
import re
from typing import Any


def shown_page(html: str) -> dict[str, Any]:
    """Return the JSON of a page that loads nothing from elsewhere, in markup or in style."""
    markup = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert not re.search(r"<(script|img|iframe|object|embed)|url\(|@import|https?://", markup)
    (text,) = re.findall(r'<script type="application/json" id="page">(.*?)</script>', html, re.S)
    found: dict[str, Any] = json.loads(text)
    return found


def blocks(page: dict[str, Any], kind: str, section: str | None = None) -> list[dict[str, Any]]:
    """Return the blocks of a kind, in a section or in all."""
    return [
        block
        for each in page["sections"]
        if section in (None, each["title"])
        for block in each["blocks"]
        if block["kind"] == kind
    ]


def words(page: dict[str, Any]) -> str:
    """Return all texts of a page, a line for each."""
    found: list[str] = []

    def add(value: object) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for each in value.values():
                add(each)
        elif isinstance(value, list):
            for each in value:
                add(each)

    add(page)
    return "\n".join(found)

"""Write a page as one HTML file, with its script, style and data, that needs no network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from launcher.client.show.page_blocks import JobsPage

#: uPlot 1.6.32 (MIT, https://github.com/leeoniya/uPlot) draws the charts.
_SCRIPTS = ("uPlot.iife.min.js", "page.js")
_STYLES = ("uPlot.min.css", "page.css")


def page_html(page: JobsPage, **live: Any) -> str:
    """Return the document. live: as for `JobsPage.to_json`.

    No other script can run in it, whatever a job has printed: the browser compares the script with
    its hash, and requests go to the page's own server alone.
    """
    script = "\n".join(map(_asset, _SCRIPTS))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = page.to_json(**live).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(page.title)}</title><style>{''.join(map(_asset, _STYLES))}</style></head>"
        '<body><header></header><div class="notice" role="status" hidden></div>'
        '<nav aria-label="sections"><div></div></nav><main><div class="cards"></div></main>'
        f'<footer></footer><script type="application/json" id="page">{data}</script>'
        f"<script>{script}</script></body></html>\n"
    )


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text()

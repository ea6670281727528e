"""Facts about the platform: the files, channels, variables and names that it gives a host."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

#: Deep enough for input/data/<channel>/<file>.
_DEPTH = 4


def collect(root: Path) -> dict[str, Any]:
    """Collect the facts that do not depend on the machine."""
    config = {path.name: read(path) for path in _files(root / "input" / "config")}
    hosts = (config.get("resourceconfig.json") or {}).get("hosts", [])
    return {
        "config": config,
        "channels": {
            channel.name: sorted(path.name for path in _files(channel))
            for channel in sorted((root / "input" / "data").glob("*"))
        },
        "folders": sorted(_folders(root, root, _DEPTH)),
        "environment": dict(os.environ),
        "folder_at_start": str(Path.cwd()),
        "is_process_1": os.getpid() == 1,
        "hostname": socket.gethostname(),
        "addresses": {host: _address(host) for host in hosts},
    }


def read(path: Path) -> Any:
    """Return a file's JSON, or its text, or why it cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        return {"unreadable": error.strerror}
    try:
        return json.loads(text)
    except ValueError:
        return text


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_file())


def _folders(folder: Path, root: Path, depth: int) -> list[str]:
    """List the folders below the root, marking those that are read-only."""
    if depth == 0:
        return []
    found: list[str] = []
    for path in folder.glob("*"):
        if path.is_dir():
            mark = "" if os.access(path, os.W_OK) else " (read-only)"
            found += [f"{path.relative_to(root)}{mark}", *_folders(path, root, depth - 1)]
    return found


def _address(host: str) -> str | None:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return None

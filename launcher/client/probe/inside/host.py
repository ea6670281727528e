"""One host of the probe: inspect it, meet the other host, write the answers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from . import given, machine, meeting
from .redaction import redacted

#: The group whose host stays to the end; the other group's host leaves first.
_STAYS = "main_group"


def run() -> int:
    """Write /opt/ml/output/data/probe-<host>.json; the exit code is always 0.

    A failing probe would leave nothing: a failed job may not upload its output.
    """
    started = time.time()
    root = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
    platform = given.look_around(root)
    own = machine.look_around(root)
    resources = platform["config"].get("resourceconfig.json") or {}
    host = str(resources.get("current_host", "unknown"))
    group = _group(resources, host)
    say(f"host {host} of {group} looked around")
    _leave_traces(root, host)
    platform["meeting"] = _meet(resources, host, group == _STAYS, _patience(root))
    answers = {
        "host": host,
        "group": group,
        "seconds": {"started": started, "ended": time.time()},
        "platform": platform,
        "machine": own,
    }
    _write(root / "output" / "data" / f"probe-{host}.json", redacted(answers))
    say(f"host {host} leaves")
    return 0


def say(text: str) -> None:
    """Print one line of the probe's log."""
    print(f"probe: {text}", flush=True)


def _group(resources: dict[str, Any], host: str) -> str:
    """Return the host's group, from its own entry or from the list of groups."""
    for group in resources.get("instance_groups") or ():
        if host in group.get("hosts", ()):
            return str(group["instance_group_name"])
    return str(resources.get("current_group_name", "unknown"))


def _patience(root: Path) -> meeting.Patience:
    """Return the waiting times from the job's hyperparameters."""
    given_values = given.read(root / "input" / "config" / "hyperparameters.json") or {}
    return meeting.Patience(
        wait=float(given_values.get("wait_seconds", 600)),
        linger=float(given_values.get("linger_seconds", 30)),
    )


def _meet(
    resources: dict[str, Any], host: str, stays: bool, patience: meeting.Patience
) -> dict[str, Any]:
    others = [other for other in resources.get("hosts", ()) if other != host]
    if not others:
        return {"error": "there is no other host"}
    if stays:
        return meeting.stay(host, others[0], patience)
    return meeting.leave_first(host, patience)


def _leave_traces(root: Path, host: str) -> None:
    """Write a file of the same name on every host, to see whose survives."""
    for folder in (root / "model", root / "output" / "data"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "same-name.txt").write_text(host)
        (folder / f"of-{host}.txt").write_text(host)


def _write(path: Path, answers: Any) -> None:
    path.write_text(json.dumps(answers, indent=2, sort_keys=True, default=str))

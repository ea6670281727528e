"""One host of the probe: inspect it, connect to the other host, write the answers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from . import machine_facts, meeting, platform_facts
from .redaction import redacted

#: The group whose host is_main to the end; the other group's host leaves first.
_MAIN_GROUP = "main_group"


def run() -> int:
    """Write /opt/ml/output/data/probe-<host>.json; the exit code is always 0.

    A failing probe would leave nothing: a failed job may not upload its output.
    """
    started = time.time()
    root = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
    platform = platform_facts.collect(root)
    own = machine_facts.collect(root)
    resources = platform["config"].get("resourceconfig.json") or {}
    host = str(resources.get("current_host", "unknown"))
    group = _group(resources, host)
    log(f"host {host} of {group} was inspected")
    _write_marker_files(root, host)
    platform["meeting"] = _meet(resources, host, group == _MAIN_GROUP, _timeouts(root))
    answers = {
        "host": host,
        "group": group,
        "seconds": {"started": started, "ended": time.time()},
        "platform": platform,
        "machine": own,
    }
    _write(root / "output" / "data" / f"probe-{host}.json", redacted(answers))
    log(f"host {host} exits")
    return 0


def log(text: str) -> None:
    """Print one line of the probe's log."""
    print(f"probe: {text}", flush=True)


def _group(resources: dict[str, Any], host: str) -> str:
    """Return the host's group, from its own entry or from the list of groups."""
    for group in resources.get("instance_groups") or ():
        if host in group.get("hosts", ()):
            return str(group["instance_group_name"])
    return str(resources.get("current_group_name", "unknown"))


def _timeouts(root: Path) -> meeting.ProbeTimeouts:
    """Return the timeouts from the job's hyperparameters."""
    hyperparameters = platform_facts.read(root / "input" / "config" / "hyperparameters.json") or {}
    return meeting.ProbeTimeouts(
        wait=float(hyperparameters.get("wait_seconds", 600)),
        linger=float(hyperparameters.get("linger_seconds", 30)),
    )


def _meet(
    resources: dict[str, Any], host: str, is_main: bool, timeouts: meeting.ProbeTimeouts
) -> dict[str, Any]:
    others = [other for other in resources.get("hosts", ()) if other != host]
    if not others:
        return {"error": "there is no other host"}
    if is_main:
        return meeting.run_main_host(host, others[0], timeouts)
    return meeting.run_helper_host(host, timeouts)


def _write_marker_files(root: Path, host: str) -> None:
    """Write a file of the same name on every host, to observe which one is kept."""
    for folder in (root / "model", root / "output" / "data"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "same-name.txt").write_text(host)
        (folder / f"of-{host}.txt").write_text(host)


def _write(path: Path, answers: object) -> None:
    path.write_text(json.dumps(answers, indent=2, sort_keys=True, default=str))

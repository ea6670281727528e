"""Isolation `process`: a host is a process tree with its own folders, and nothing is hidden.

Its /opt/ml is the folder named by SAGEMAKER_BASE_DIR, and channels are links to the user's data.
"""

from __future__ import annotations

import re
from pathlib import Path

from launcher.client.sessions.local.host.process_tree import die_with_parent
from launcher.client.sessions.local.isolation.host_launch_spec import (
    HostLaunchSpec,
    StartPlan,
    hard_link_files,
    symlink_files,
    with_local_python,
)
from launcher.shared import EVENTS_VARIABLE, ML_ROOT_VARIABLE

_ML_ROOT = re.compile(r"(?<![\w./-])/opt/ml(?=/|$)")


def plan_start(launch_spec: HostLaunchSpec) -> StartPlan:
    """Put the host's channels in place and return what to run."""
    root = launch_spec.tree.ml.root
    _link_channels(launch_spec)
    return StartPlan(
        command=with_local_python(
            [_with_ml_root(word, root) for word in launch_spec.command], launch_spec.python
        ),
        environment={
            **launch_spec.environment,
            "HOME": str(launch_spec.tree.home),
            "TMPDIR": str(launch_spec.scratch),
            ML_ROOT_VARIABLE: str(root),
            EVENTS_VARIABLE: str(launch_spec.tree.ml.events),
        },
        folder=launch_spec.tree.ml.code,
        before=die_with_parent,
    )


def find_obstacle() -> None:
    """Return None: processes work everywhere."""


def _link_channels(launch_spec: HostLaunchSpec) -> None:
    for mount in launch_spec.channel_mounts:
        target = launch_spec.tree.ml.channels / mount.channel.name
        if mount.folder is not None:
            target.symlink_to(mount.folder.resolve())
        else:
            target.mkdir()
            (hard_link_files if mount.is_writable else symlink_files)(target, mount.files)


def _with_ml_root(word: str, root: Path) -> str:
    """Replace /opt/ml in a word of the command by the host's real folder."""
    return _ML_ROOT.sub(lambda _: str(root), word)

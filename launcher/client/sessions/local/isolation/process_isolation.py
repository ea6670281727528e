"""Isolation `process`: a host is a process tree with its own folders, and nothing is hidden.

Its /opt/ml is the folder named by SAGEMAKER_BASE_DIR, and channels are links to the user's data.
"""

from __future__ import annotations

import re
from pathlib import Path

from launcher.client.sessions.local.isolation.host_launch_spec import (
    HostLaunchSpec,
    StartPlan,
    place_copies,
    place_links,
    with_running_python,
)
from launcher.client.sessions.local.process_tree import die_with_parent
from launcher.shared import ML_ROOT_VARIABLE

_ML_ROOT = re.compile(r"(?<![\w./-])/opt/ml(?=/|$)")


def plan_start(berth: HostLaunchSpec) -> StartPlan:
    """Put the host's channels in place and return what to run."""
    root = berth.tree.ml.root
    _place_channels(berth)
    return StartPlan(
        command=with_running_python([_moved(word, root) for word in berth.command]),
        environment={
            **berth.environment,
            "HOME": str(berth.tree.home),
            "TMPDIR": str(berth.scratch),
            ML_ROOT_VARIABLE: str(root),
        },
        folder=berth.tree.ml.code,
        before=die_with_parent,
    )


def find_obstacle() -> None:
    """Return None: processes work everywhere."""


def _place_channels(berth: HostLaunchSpec) -> None:
    for supply in berth.supplies:
        place = berth.tree.ml.channels / supply.channel.name
        if supply.folder is not None:
            place.symlink_to(supply.folder.resolve())
        else:
            place.mkdir()
            (place_copies if supply.is_own else place_links)(place, supply.files)


def _moved(word: str, root: Path) -> str:
    """Replace /opt/ml in a word of the command by the host's real folder."""
    return _ML_ROOT.sub(lambda _: str(root), word)

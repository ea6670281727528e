"""One host's folder: /opt/ml, the home, and the files the platform writes there.

The files and their fields are those observed on SageMaker: hyperparameters.json,
inputdataconfig.json, resourceconfig.json, and checkpointconfig.json for a job with checkpoints.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.client.sessions.local.storage.atomic_files import write_json
from launcher.client.sessions.local.storage.input_channels import ChannelMount
from launcher.shared import DEFAULT_ML_ROOT, MlPaths

if TYPE_CHECKING:
    from launcher.shared import CheckpointFields, TrainingJobRequest


#: The home and temporary folder of a host in a sandbox.
SANDBOX_HOME, SANDBOX_TMP = Path("/opt/home"), Path("/tmp")
#: Longest chain of links to follow; the same limit as Linux (path_resolution(7)).
_MAX_LINKS = 40


@dataclass(frozen=True)
class HostFolder:
    """The folder of one host, with all its files."""

    path: Path

    @property
    def ml(self) -> MlPaths:
        """The folder that the host sees as /opt/ml."""
        return MlPaths(self.path / "ml")

    @property
    def home(self) -> Path:
        """The host's home folder."""
        return self.path / "home"

    @property
    def scratch(self) -> Path:
        """The host's temporary folder, while its job runs."""
        return self.path.parent.parent / "scratch" / self.path.name

    @property
    def roots(self) -> dict[Path, Path]:
        """The host's places on this machine, by their paths in a sandbox."""
        return {DEFAULT_ML_ROOT: self.ml.root, SANDBOX_HOME: self.home, SANDBOX_TMP: self.scratch}

    @property
    def process(self) -> Path:
        """The file with the ID of the host's first process, once it has started."""
        return self.path / "process.json"

    def has(self, path: Path) -> bool:
        """Return whether a path of the host is still the host's when its links are followed.

        Programs of a job make links as they like; what these name elsewhere is not the host's.
        """
        return self.locate(path) is not None

    def locate(self, path: Path) -> Path | None:
        """Return where a path leads when its links are followed as in the host; None if out of it.

        The place need not exist: at the end of a loop it is one of the loop's links.
        """
        place, links = Path("/"), 0
        names = list(reversed(path.absolute().parts[1:]))
        while names and links < _MAX_LINKS:
            name = names.pop()
            step = place.parent if name == ".." else place / name
            if not step.is_symlink():
                place = step
                continue
            links += 1
            target = self._on_this_machine(step.readlink())
            place = Path("/") if target.is_absolute() else place
            names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        place = place.joinpath(*reversed(names))
        own = map(os.path.realpath, self.roots.values())
        return place if any(place.is_relative_to(each) for each in own) else None

    def _on_this_machine(self, target: Path) -> Path:
        """Return where an absolute path of the host is, which a sandbox shows at another place."""
        for seen, here in self.roots.items():
            if not target.is_relative_to(seen) or target == SANDBOX_TMP:
                continue
            inside = target.relative_to(seen)
            # Without a sandbox, the temporary folder is another, and /tmp is the machine's.
            if seen != SANDBOX_TMP or os.path.lexists(here / inside.parts[0]):
                return here / inside
        return target

    def discard_library(self) -> None:
        """Remove Launcher's code, which every host has unpacked from the job's bundle."""
        root = Path(os.path.realpath(self.ml.root))
        library = MlPaths(root).library / "launcher"
        if os.path.realpath(library) == str(library):  # no program has made links of it
            shutil.rmtree(library, ignore_errors=True)

    def make(self) -> None:
        """Create every folder that exists in a training container."""
        ml = self.ml
        for folder in (
            ml.code,
            ml.config,
            ml.channels,
            ml.model,
            ml.output_data,
            ml.output_intermediate,
            ml.checkpoints,
            self.home,
        ):
            folder.mkdir(parents=True)


def write_config(
    tree: HostFolder,
    host: LocalHost,
    hosts: Sequence[LocalHost],
    request: TrainingJobRequest,
    channel_mounts: Sequence[ChannelMount],
) -> None:
    """Write the files of the host's input/config."""
    folder = tree.ml.config
    write_json(folder / "resourceconfig.json", resource_config(host, hosts))
    write_json(folder / "hyperparameters.json", request.get("HyperParameters", {}))
    if checkpoints := checkpoint_config(request):
        path = checkpoints["LocalPath"]
        write_json(folder / "checkpointconfig.json", {"LocalPath": path})
    write_json(
        folder / "inputdataconfig.json",
        {mount.channel.name: dict(mount.channel.config) for mount in channel_mounts},
    )


def checkpoint_config(request: TrainingJobRequest) -> CheckpointFields | None:
    """Return CheckpointConfig with its default folder; None for a job without."""
    config = request.get("CheckpointConfig")
    if config is None:
        return None
    return {"LocalPath": str(MlPaths().checkpoints), **config}


def resource_config(host: LocalHost, hosts: Sequence[LocalHost]) -> dict[str, object]:
    """Return resourceconfig.json: the host's own name and group, and all other hosts.

    Host names are in alphabetical order, as on SageMaker: "algo-10" before "algo-2".
    """
    groups: dict[str, dict[str, Any]] = {}
    for each in hosts:
        group = groups.setdefault(
            each.group,
            {"instance_group_name": each.group, "instance_type": each.instance_type, "hosts": []},
        )
        group["hosts"] = sorted([*group["hosts"], each.name])
    return {
        "current_host": host.name,
        "current_instance_type": host.instance_type,
        "current_group_name": host.group,
        "hosts": sorted(each.name for each in hosts),
        "instance_groups": list(groups.values()),
        "network_interface_name": host.interface,
        "topology": None,
    }

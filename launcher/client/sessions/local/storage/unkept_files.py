"""Files that a job's programs have made elsewhere than in the folders that are kept of a host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.host_folder import (
    SANDBOX_TMP,
    HostFolder,
    checkpoint_config,
)
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.shared import DEFAULT_ML_ROOT, kept_elsewhere, listed, new_files, size_text

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: Commands to print.
_COMMANDS = 4


@dataclass(frozen=True, kw_only=True)
class _UnkeptFile:
    """A file that goes with its host.

    path: as a host in a sandbox sees it. root: its home, temporary folder or /opt/ml.
    """

    host: LocalHost
    root: Path
    path: Path
    size: int

    @property
    def folder(self) -> Path:
        """The root, or below /opt/ml the first folder there."""
        is_ml = self.root == DEFAULT_ML_ROOT
        return self.root / self.path.relative_to(self.root).parts[0] if is_ml else self.root

    def __str__(self) -> str:
        return f"{self.path} ({size_text(self.size)})"


def unkept_notes(
    request: TrainingJobRequest,
    trees: Mapping[LocalHost, HostFolder],
    *,
    has_output: bool,
    since: float,
) -> list[str]:
    """Return what to say of the files of a job that has left no model.

    has_output: it has left output. since: when its programs began. Without files elsewhere there is
    nothing to say.
    """
    config = checkpoint_config(request)
    checkpoints = Path(config["LocalPath"]).relative_to(DEFAULT_ML_ROOT) if config else None
    files = [
        file
        for host, tree in trees.items()
        for file in _unkept_files(host, tree, checkpoints and tree.ml.root / checkpoints, since)
    ]
    has_checkpoints = checkpoints is not None and any(
        any(new_files(tree.ml.root / checkpoints)) for tree in trees.values()
    )
    what = "no model" if has_output or has_checkpoints else "nothing"
    job = request["TrainingJobName"]
    if not files:
        return []
    files.sort(key=lambda file: (-file.size, file.host.number, file.path))
    hosts: dict[str, list[str]] = {}
    for file in files:
        hosts.setdefault(str(file), []).append(file.host.name)
    named = [f"{file}{_on(each, len(trees))}" for file, each in hosts.items()]
    return [
        f"{what} was kept: write to SM_MODEL_DIR what is to stay",
        f"new files elsewhere, which are lost on AWS: {listed(named)}",
        *_ways_to_save(job, files, has_one_host=len(trees) == 1),
    ]


def _on(hosts: Sequence[str], count: int) -> str:
    return "" if count == 1 else f" on {hosts[0] if len(hosts) == 1 else f'{len(hosts)} hosts'}"


def _ways_to_save(job: str, files: Sequence[_UnkeptFile], *, has_one_host: bool) -> Iterator[str]:
    """Yield the command that copies the files of each folder; temporary ones are gone."""
    folders: dict[tuple[LocalHost, Path], list[Path]] = {}
    for file in files:
        folders.setdefault((file.host, file.folder), []).append(file.path)
    for (host, folder), paths in islice(folders.items(), _COMMANDS):
        if folder == SANDBOX_TMP:
            yield f"files in {SANDBOX_TMP} are gone with their host"
            continue
        place = Path(os.path.commonpath(paths))
        if place.is_relative_to(DEFAULT_ML_ROOT):
            place = place.relative_to(DEFAULT_ML_ROOT)
        of_host = "" if has_one_host else f" --host {host.name}"
        yield f"launcher download {job} {place}{of_host}"


def _unkept_files(
    host: LocalHost, tree: HostFolder, checkpoints: Path | None, since: float
) -> Iterator[_UnkeptFile]:
    kept = kept_elsewhere(tree.ml, checkpoints)
    for root, here in tree.roots.items():
        for path, size in new_files(here, kept, since):
            seen = root / path.relative_to(here)
            yield _UnkeptFile(host=host, root=root, path=seen, size=size)

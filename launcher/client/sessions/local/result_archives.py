"""Archives of a job's results: model.tar.gz and output.tar.gz, merged from all its hosts."""

from __future__ import annotations

import filecmp
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.file_access import add_owner_permissions
from launcher.client.sessions.local.host_folder import HostFolder
from launcher.client.sessions.local.job_hosts import LocalHost
from launcher.client.sessions.local.object_store import ObjectStore
from launcher.shared import DEFAULT_ML_ROOT

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest

#: Fast: weights hardly compress, and the user is waiting.
_GZIP_LEVEL = 1


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """The stored results of a job.

    model: the URI of model.tar.gz, None when the hosts left no model.
    notes: messages for the user about dropped files.
    problem: the folder that a host has replaced, so that its files are lost; None without one.
    """

    model: str | None
    notes: tuple[str, ...]
    problem: str | None


def pack_artifacts(
    request: TrainingJobRequest, trees: Mapping[LocalHost, HostFolder], store: ObjectStore
) -> Artifacts:
    """Write model.tar.gz and output.tar.gz, if there is content, to the job's results location.

    If the request asks for an uncompressed model, its files are stored below model/ instead. If
    several hosts wrote the same file, the first host's is kept. Links are kept as links, and are
    never followed out of a host. Raises OSError or S3Failed when the results cannot be written.
    """
    model_folders = {host: _Folder(tree, tree.ml.model) for host, tree in trees.items()}
    output_folders = {host: _Folder(tree, tree.ml.output_data) for host, tree in trees.items()}
    model, output = _merged(model_folders), _merged(output_folders)
    is_plain = request["OutputDataConfig"].get("CompressionType") == "NONE"
    name = "model/" if is_plain else "model.tar.gz"
    notes = [*model.notes(name), *output.notes("output.tar.gz")]
    notes += [*_removed(model_folders), *_removed(output_folders)]
    if is_plain:
        notes += _store_plain(model, trees, store)
    elif model.files:
        _pack(model, store, name)
    if output.files:
        _pack(output, store, "output.tar.gz")
    problems = [*_replaced(model_folders), *_replaced(output_folders)]
    return Artifacts(
        model=store.uri_of(name) if model.files else None,
        notes=(*notes, *problems),
        problem=problems[0] if problems else None,
    )


@dataclass(frozen=True)
class _Folder:
    """A folder of one host that is packed, if the host's programs have left it in its place."""

    tree: HostFolder
    path: Path

    @property
    def is_there(self) -> bool:
        return self.path.is_dir() and not self._is_linked

    @property
    def is_replaced(self) -> bool:
        return os.path.lexists(self.path) and not self.is_there

    @property
    def _is_linked(self) -> bool:
        """True if the path, or a part of it below /opt/ml, is a link."""
        root = self.tree.ml.root
        place = Path(os.path.realpath(root)) / self.path.relative_to(root)
        return Path(os.path.realpath(self.path)) != place

    def __str__(self) -> str:
        return str(DEFAULT_ML_ROOT / self.path.relative_to(self.tree.ml.root))


def _removed(folders: Mapping[LocalHost, _Folder]) -> Iterator[str]:
    """Yield a note for each host that has removed its folder."""
    for host, folder in folders.items():
        if not folder.is_there and not folder.is_replaced:
            yield f"{host.name} has removed {folder}: nothing of it is kept"


def _replaced(folders: Mapping[LocalHost, _Folder]) -> Iterator[str]:
    """Yield a problem for each host that has put something else in place of its folder."""
    for host, folder in folders.items():
        if folder.is_replaced:
            yield (
                f"host {host}: a program has put a link or a file in place of the folder {folder}, "
                "so its content is not kept: write files into the folder"
            )


@dataclass(frozen=True, kw_only=True)
class _Merged:
    """The merged content of one folder across hosts.

    files: (host, path) by name.
    dropped: (name, host whose file was kept, host whose file was not).
    """

    files: Mapping[str, tuple[LocalHost, Path]]
    dropped: Sequence[tuple[str, LocalHost, LocalHost]]

    def notes(self, what: str) -> list[str]:
        """Return a line for each file that another host's file replaced."""
        return [
            f"{what} has {name} of {kept_host.name}; that of {host.name} differs and was dropped"
            for name, kept_host, host in self.dropped
        ]


def _merged(folders: Mapping[LocalHost, _Folder]) -> _Merged:
    files: dict[str, tuple[LocalHost, Path]] = {}
    dropped = []
    for host, folder in folders.items():
        if not folder.is_there:
            continue
        add_owner_permissions(folder.path)
        for path in _contents(folder.path):
            name = path.relative_to(folder.path).as_posix()
            kept_host, kept_file = files.setdefault(name, (host, path))
            if kept_host is not host and _differ(path, kept_file):
                dropped.append((name, kept_host, host))
    return _Merged(files=files, dropped=dropped)


def _pack(merged: _Merged, store: ObjectStore, name: str) -> None:
    with (
        store.writing(name) as draft,
        tarfile.open(draft, "w:gz", compresslevel=_GZIP_LEVEL) as tar,
    ):
        for inside, (_, path) in merged.files.items():
            tar.add(path, arcname=inside, recursive=False)


def _store_plain(
    model: _Merged, trees: Mapping[LocalHost, HostFolder], store: ObjectStore
) -> list[str]:
    """Store each file under its name; return a note for each link that names none of the host's."""
    notes = []
    for name, (host, path) in model.files.items():
        if path.is_symlink() and path.exists() and not trees[host].has(path):
            notes.append(
                f"the model lacks {name}: on {host.name} it is a link out of {DEFAULT_ML_ROOT}"
            )
        elif path.is_file():
            with store.writing(f"model/{name}") as draft:
                shutil.copyfile(path, draft)
        elif path.is_symlink():
            notes.append(f"the model lacks {name}: on {host.name} it is a dangling link")
    return notes


def _contents(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if _is_packed(path)))


def _is_packed(path: Path) -> bool:
    """Select files, folders and links; sockets and pipes mean nothing outside their job."""
    return path.is_symlink() or path.is_file() or path.is_dir()


def _differ(path: Path, other: Path) -> bool:
    if path.is_file() and other.is_file():
        return not filecmp.cmp(path, other, shallow=False)
    return path.is_dir() != other.is_dir()

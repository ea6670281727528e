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

from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.client.sessions.local.storage.file_access import add_owner_permissions
from launcher.client.sessions.local.storage.kept_links import LinkEnd, read_link, shown_files
from launcher.client.sessions.local.storage.object_store import ObjectStore
from launcher.shared import DEFAULT_ML_ROOT

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: Fast: weights hardly compress, and the user is waiting.
_GZIP_LEVEL = 1


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """The stored results of a job.

    model: the URI of model.tar.gz, None when the hosts left no model.
    has_model, has_output: they left a file there.
    notes: messages for the user about dropped files.
    problem: the folder that a host has replaced, so that its files are lost; None without one.
    """

    model: str | None
    has_model: bool
    has_output: bool
    notes: tuple[str, ...]
    problem: str | None


def pack_artifacts(
    request: TrainingJobRequest, trees: Mapping[LocalHost, HostFolder], store: ObjectStore
) -> Artifacts:
    """Write model.tar.gz and output.tar.gz, if there is content, to the job's results location.

    If the request asks for an uncompressed model, its files are stored below model/ instead. If
    several hosts wrote the same file, the first host's is kept. Links are kept as `kept_links`
    describes. Raises OSError or S3Failed when the results cannot be written.
    """
    model_folders = {host: _Folder(tree, tree.ml.model) for host, tree in trees.items()}
    output_folders = {host: _Folder(tree, tree.ml.output_data) for host, tree in trees.items()}
    is_plain = request["OutputDataConfig"].get("CompressionType") == "NONE"
    name = "model/" if is_plain else "model.tar.gz"
    model = _merged(model_folders, with_links=store.has_links or not is_plain)
    output = _merged(output_folders)
    notes = [*model.notes(name), *output.notes("output.tar.gz")]
    notes += [*_removed(model_folders), *_removed(output_folders)]
    if is_plain:
        _store_plain(model, store)
    elif model.files:
        _pack(model, store, name)
    if output.files:
        _pack(output, store, "output.tar.gz")
    problems = [*_replaced(model_folders), *_replaced(output_folders)]
    return Artifacts(
        model=store.uri_of(name) if model.files else None,
        has_model=model.has_files,
        has_output=output.has_files,
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
class _KeptEntry:
    """A file or folder to keep, or a link with its text."""

    host: LocalHost
    path: Path
    link: str | None = None

    def differs(self, other: _KeptEntry) -> bool:
        """Return whether two hosts' entries of one name are not the same."""
        if self.link is not None or other.link is not None:
            return self.link != other.link
        if self.path.is_file() and other.path.is_file():
            return not filecmp.cmp(self.path, other.path, shallow=False)
        return self.path.is_dir() != other.path.is_dir()


@dataclass(frozen=True, kw_only=True)
class _Merged:
    """The merged content of one folder across hosts.

    files: by name. dropped: (name, host whose file was kept, host whose file was not).
    lacking: (name, host, why) of each link that is not kept.
    """

    files: Mapping[str, _KeptEntry]
    dropped: Sequence[tuple[str, LocalHost, LocalHost]]
    lacking: Sequence[tuple[str, LocalHost, str]]

    @property
    def has_files(self) -> bool:
        """True if there is more than folders."""
        return any(entry.link or not entry.path.is_dir() for entry in self.files.values())

    def notes(self, what: str) -> list[str]:
        """Return a line for each file that another host's file replaced, and each link left out."""
        dropped = (
            f"{what} has {name} of {kept_host.name}; that of {host.name} differs and was dropped"
            for name, kept_host, host in self.dropped
        )
        of = {"output.tar.gz": "output"}.get(what, "model")
        lacking = (
            f"the {of} lacks {name}: on {host.name} it is {why}" for name, host, why in self.lacking
        )
        return [*dropped, *lacking]


def _merged(folders: Mapping[LocalHost, _Folder], *, with_links: bool = True) -> _Merged:
    """Merge a folder of all hosts; without links, each is what it shows."""
    files: dict[str, _KeptEntry] = {}
    dropped, lacking = [], []
    for host, folder in folders.items():
        if not folder.is_there:
            continue
        add_owner_permissions(folder.path)
        for name, entry in _entries(host, folder, with_links):
            if isinstance(entry, str):
                lacking.append((name, host, entry))
                continue
            kept = files.setdefault(name, entry)
            if kept.host is not host and entry.differs(kept):
                dropped.append((name, kept.host, host))
    return _Merged(files=files, dropped=dropped, lacking=lacking)


def _entries(
    host: LocalHost, folder: _Folder, with_links: bool
) -> Iterator[tuple[str, _KeptEntry | str]]:
    """Yield the name and the entry of each file, folder and link, or why a link is not kept."""
    for path in _contents(folder.path):
        name = path.relative_to(folder.path).as_posix()
        if not path.is_symlink():
            yield name, _KeptEntry(host=host, path=path)
            continue
        found = read_link(path, folder.path, folder.tree)
        if found.text is not None and with_links:
            yield name, _KeptEntry(host=host, path=path, link=found.text)
        elif found.end not in (LinkEnd.KEPT, LinkEnd.IN_HOST):
            yield name, found.end.value
        else:
            yield from _shown(name, host, found.target, folder.tree)


def _shown(
    name: str, host: LocalHost, target: Path, tree: HostFolder
) -> Iterator[tuple[str, _KeptEntry | str]]:
    """Yield the file that a link shows, or the folder with its files."""
    yield name, _KeptEntry(host=host, path=target)
    for inside, file in shown_files(target, tree) if target.is_dir() else ():
        entry = _KeptEntry(host=host, path=file) if file else LinkEnd.OUTSIDE.value
        yield f"{name}/{inside}", entry


def _pack(merged: _Merged, store: ObjectStore, name: str) -> None:
    with (
        store.writing(name) as draft,
        tarfile.open(draft, "w:gz", compresslevel=_GZIP_LEVEL) as tar,
    ):
        for inside, entry in merged.files.items():
            if entry.link is None:
                tar.add(entry.path, arcname=inside, recursive=False)
            else:
                member = tar.gettarinfo(entry.path, arcname=inside)
                member.linkname = entry.link
                tar.addfile(member)


def _store_plain(model: _Merged, store: ObjectStore) -> None:
    """Store each file, and each link, under its name."""
    for name, entry in model.files.items():
        if entry.link is not None:
            store.link(f"model/{name}", entry.link)
        elif entry.path.is_file():
            with store.writing(f"model/{name}") as draft:
                shutil.copyfile(entry.path, draft)


def _contents(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if _is_packed(path)))


def _is_packed(path: Path) -> bool:
    """Select files, folders and links; sockets and pipes mean nothing outside their job."""
    return path.is_symlink() or path.is_file() or path.is_dir()

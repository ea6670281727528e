"""Copies files out of a host of a local job, while it runs and afterwards, as `docker cp` does."""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from launcher.client.sessions.local.host.host_exec import host_names, tree_of
from launcher.client.sessions.local.host.host_folder import SANDBOX_HOME, HostFolder
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.input_channels import channels_of
from launcher.errors import PlatformError
from launcher.shared import DEFAULT_ML_ROOT, MlPaths

_ROOT = PurePosixPath(DEFAULT_ML_ROOT)
_ROOTS = (_ROOT, PurePosixPath(SANDBOX_HOME))
_CHANNELS = MlPaths(DEFAULT_ML_ROOT).channels


def copy_from_host(folder: JobFolder, host: str, path: str, target: Path) -> Path:
    """Copy a file or folder of a host, as `cp -r` does; return the copy's path.

    path: as the host sees it, below /opt/ml or /opt/home; a relative path starts in /opt/ml.
    target: a folder, which gets the copy under its own name, or the copy's path.

    Raises PlatformError for a path that the host does not have, and for a target that cannot be
    written.
    """
    inside = _path_in_host(path)
    source = _found(folder, host, inside)
    if source is None:
        raise PlatformError(_why_absent(folder, host, inside))
    copy = target / inside.name if target.is_dir() else target
    try:
        if source.is_dir():
            _remove_links(source, copy)
            shutil.copytree(
                source,
                copy,
                symlinks=True,
                ignore=_special_files,
                copy_function=_replace,
                dirs_exist_ok=True,
            )
        else:
            _replace(source, copy)
    except shutil.Error as error:
        first, _, reason = error.args[0][0]
        raise PlatformError(f"cannot copy {first}: {reason}") from error
    except OSError as error:
        raise PlatformError(
            f"cannot copy {inside} of {host} to {copy}: {error.strerror or error}"
        ) from error
    return copy


def _replace(source: str | Path, copy: str | Path) -> None:
    """Copy a file, also over a read-only one."""
    try:
        shutil.copy2(source, copy)
    except PermissionError:
        Path(copy).unlink()
        shutil.copy2(source, copy)


def _remove_links(source: Path, copy: Path) -> None:
    """Remove the links of an earlier copy: each is made anew, and none is written through."""
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            path = Path(folder, name)
            earlier = copy / path.relative_to(source)
            if earlier.is_symlink() and (path.is_symlink() or not path.is_dir()):
                earlier.unlink()


def _path_in_host(path: str) -> PurePosixPath:
    """Return an absolute path in a host, without `..`; raise PlatformError outside of its folders.

    A sandbox shows its home at /opt/home; other hosts' homes have that name here too.
    """
    inside = PurePosixPath(posixpath.normpath(_ROOT / path))
    if not any(inside.is_relative_to(root) for root in _ROOTS):
        raise PlatformError(
            f"{inside} is not below {_ROOT}, which is all that is kept of a host: give a path "
            "there, such as model or output/data"
        )
    return inside


def _here(tree: HostFolder, inside: PurePosixPath) -> Path:
    """Return the path on this machine; its links are not followed."""
    root = next(root for root in _ROOTS if inside.is_relative_to(root))
    return tree.roots[Path(root)] / inside.relative_to(root)


def _found(folder: JobFolder, host: str, inside: PurePosixPath) -> Path | None:
    """Return the file or folder on this machine, following links in the host; None without one."""
    tree = tree_of(folder, host)
    path = _here(tree, inside)
    place = tree.locate(path) or _given(folder, path)
    return place if place and place.exists() and not _is_mount(tree, place) else None


def _given(folder: JobFolder, path: Path) -> Path | None:
    """Return the place of a path in a channel that the host was given, else None."""
    real = Path(os.path.realpath(path))
    given = [path_of(each.uri) for each in channels_of(folder.request()) if not each.is_in_s3]
    return real if any(real.is_relative_to(os.path.realpath(each)) for each in given) else None


def _is_mount(tree: HostFolder, place: Path) -> bool:
    """Return whether a folder is empty because a channel was mounted there in the host alone."""
    channels = os.path.realpath(tree.ml.channels)
    return place.is_relative_to(channels) and place.is_dir() and not any(place.iterdir())


def _why_absent(folder: JobFolder, host: str, inside: PurePosixPath) -> str:
    what = f"host {host} of job {folder.name} has no {inside}"
    link = _here(tree_of(folder, host), inside)
    if link.is_symlink():
        return f"{what}: it is a link to {link.readlink()}, which is not in the host"
    for channel in folder.request().get("InputDataConfig", []):
        source = channel["DataSource"].get("S3DataSource")
        if source and inside.is_relative_to(_CHANNELS / channel["ChannelName"]):
            return f"{what}: a channel is not kept with the job; its data is {source['S3Uri']}"
    others = [each for each in host_names(folder) if each != host]
    having = [each for each in others if _found(folder, each, inside)]
    if having:
        return f"{what}, but {', '.join(having)} has: use --host {having[0]}"
    return f"{what}; it has {', '.join(_nearest_entries(folder, host, inside)) or 'none'}"


def _nearest_entries(folder: JobFolder, host: str, inside: PurePosixPath) -> Iterator[str]:
    """Yield what is in the nearest folder above a path that the host has."""
    parents = [each for each in inside.parents if any(each.is_relative_to(root) for root in _ROOTS)]
    nearest = next((each for each in parents if _found(folder, host, each)), None)
    found = nearest and _found(folder, host, nearest)
    if nearest and found and found.is_dir():
        yield from (str(nearest / entry.name) for entry in sorted(found.iterdir())[:10])


def _special_files(folder: str, names: Sequence[str]) -> list[str]:
    """Return sockets, pipes and devices, which mean nothing outside their job."""
    return [name for name in names if _is_special(Path(folder, name))]


def _is_special(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))

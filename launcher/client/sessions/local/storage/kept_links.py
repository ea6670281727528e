"""Links in the folders that are kept of a host (model, output, checkpoints), by what they name.

A link that names something in its folder is kept as a link, so that `latest -> step-8` goes on
working. One that names something elsewhere in the host is kept as what it shows. Links out of the
host are never followed, nor are those to a folder around the kept one.
"""

from __future__ import annotations

import enum
import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.shared import DEFAULT_ML_ROOT


class LinkEnd(enum.Enum):
    """The place that a link names; of one that is not kept, what it is."""

    KEPT = "a link in the kept folder"
    IN_HOST = "a link to elsewhere in the host"
    OUTSIDE = f"a link out of {DEFAULT_ML_ROOT}"
    AROUND = "a link to a folder around it"
    NOTHING = "a dangling link"


@dataclass(frozen=True, kw_only=True)
class KeptLink:
    """A link, and what it names.

    target: on this machine, without further links; only of KEPT and IN_HOST. text: the link to
    keep, relative to the link's own folder; only of KEPT, and of NOTHING below the kept folder.
    """

    end: LinkEnd
    target: Path = Path()
    text: str | None = None


def read_link(link: Path, folder: Path, tree: HostFolder) -> KeptLink:
    """Return what a link below a kept folder of a host names."""
    target, root = tree.locate(link), tree.locate(folder)
    if target is None or root is None:
        return KeptLink(end=LinkEnd.OUTSIDE)
    own_text = link.readlink().as_posix()
    is_inside = stays_below(PurePosixPath(link.relative_to(folder)), own_text)
    if not target.exists():
        return KeptLink(end=LinkEnd.NOTHING, text=own_text if is_inside else None)
    if target != root and root.is_relative_to(target):
        return KeptLink(end=LinkEnd.AROUND)
    if not target.is_relative_to(root):
        return KeptLink(end=LinkEnd.IN_HOST, target=target)
    parent = root / link.relative_to(folder).parent
    text = own_text if is_inside else os.path.relpath(target, parent)
    return KeptLink(end=LinkEnd.KEPT, target=target, text=text)


def stays_below(name: PurePath, text: str) -> bool:
    """Return whether a link of a name in a folder stays in that folder by its text.

    >>> stays_below(PurePosixPath("steps/latest"), "../best"), stays_below(PurePosixPath("a"), "..")
    (True, False)
    """
    place = posixpath.normpath(posixpath.join(name.parent, text))
    return not posixpath.isabs(text) and place.split("/")[0] != ".."


def shown_files(folder: Path, tree: HostFolder) -> Iterator[tuple[PurePosixPath, Path | None]]:
    """Yield (name, file) of all that a folder shows, links followed; None for one out of the host.

    Each folder is shown once, so links in a circle end.
    """
    waiting, seen = [(PurePosixPath(), folder)], set()
    while waiting:
        name, place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        for entry in sorted(place.iterdir()):
            found = tree.locate(entry) if entry.is_symlink() else entry
            if found is None or found.is_file():
                yield name / entry.name, found
            elif found.is_dir():
                waiting.append((name / entry.name, found))

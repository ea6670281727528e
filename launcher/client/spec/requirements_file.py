"""Requirements files as pip reads them: which files they include, and which packages they name.

pip itself resolves and installs; this reading only decides what identifies an installation, and
what a check reports. Source: https://pip.pypa.io/en/stable/reference/requirements-file-format/
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.shared import BUILD_FILE, SETUP_FILE, describes_package

if TYPE_CHECKING:
    from packaging.markers import Marker
    from packaging.requirements import Requirement

#: Returns the text of a file by its path below the source folder; None if there is no such file.
ReadText = Callable[[str], "str | None"]

_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"(^|(?<!\s)\s+)#.*$")  # tried once for each run of spaces
_OPTION = re.compile(r"(--[a-z-]+|-[a-zA-Z])(?:\s*=\s*|\s*)(.*)")
_INCLUDES = ("-r", "--requirement", "-c", "--constraint")
_EDITABLE, _LINKS = ("-e", "--editable"), ("-f", "--find-links")
#: Where the options of one requirement begin: "package==1 --hash=sha256:...".
_OWN_OPTIONS = re.compile(r"\s--(?:hash|config-settings?|global-option)\b")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RequirementsFile:
    """A requirements file with everything that it includes.

    path: below the source folder. texts: the text of every file that it reads, by path.
    lines: the requirements, without options. options: (name, value) of every option.
    has_setup: true if the source's setup.py is installed too. build: the text of its
        pyproject.toml, if it has one.
    """

    path: str
    texts: Mapping[str, str]
    lines: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    has_setup: bool = False
    build: str | None = None

    @property
    def is_listed(self) -> bool:
        """True if there is a file, and not only a setup.py."""
        return self.path in self.texts

    @property
    def reads_source(self) -> bool:
        """True if a requirement is a file or folder of the source: ".", "wheels/a.whl", "-e ."."""
        links = [value for name, value in self.options if name in _LINKS and not _URL.match(value)]
        return bool(links) or any(map(_is_local, self._targets))

    @property
    def needs_network(self) -> bool:
        """True if pip looks at an index, or downloads a file."""
        if any(name in _INCLUDES and _URL.match(value) for name, value in self.options):
            return True
        names = {name for name, _ in self.options}
        has_wheels = "--no-index" in names and not names.isdisjoint(_LINKS)
        return not has_wheels and not all(map(_is_local, self._targets))

    @property
    def _targets(self) -> tuple[str, ...]:
        editable = (value for name, value in self.options if name in _EDITABLE)
        return (*self.lines, *editable)

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The requirements that are only a path or a URL."""
        return tuple(target for target in self._targets if _parse(target) is None)

    def requirements(self) -> Iterator[Requirement]:
        """Yield the requirements that name a package and apply to this Python."""
        for found in filter(None, map(_parse, self.lines)):
            if found.marker is None or _applies(found.marker):
                yield found

    def names(self, package: str) -> bool:
        """Return whether the file asks for a package by its (canonical) name."""
        from packaging.utils import canonicalize_name

        return any(canonicalize_name(found.name) == package for found in self.requirements())


def read_requirements(path: str, read: ReadText) -> RequirementsFile | None:
    """Read a requirements file and what it includes, and the source's setup.py.

    Return None if there is nothing to install.
    """
    texts: dict[str, str] = {}
    lines: list[str] = []
    options: list[tuple[str, str]] = []
    pending = [(posixpath.normpath(path), True)]
    while pending:
        here, is_listing = pending.pop(0)
        text = None if here in texts else read(here)
        if text is None:
            continue
        texts[here] = text
        for line in _logical_lines(text):
            option = _OPTION.fullmatch(line)
            if option is None:
                lines += [_OWN_OPTIONS.split(line, maxsplit=1)[0].strip()] if is_listing else []
                continue
            name, value = option[1], option[2].strip()
            options.append((name, value))
            if name in _INCLUDES and not _URL.match(value):
                included = posixpath.normpath(posixpath.join(posixpath.dirname(here), value))
                pending.append((included, is_listing and name in _INCLUDES[:2]))
    has_setup = describes_package(read(SETUP_FILE) or "")
    if not texts and not has_setup:
        return None
    return RequirementsFile(
        path=posixpath.normpath(path) if texts else SETUP_FILE,
        texts=texts,
        lines=tuple(dict.fromkeys([*lines, *(["."] if has_setup else [])])),
        options=tuple(dict.fromkeys(options)),
        has_setup=has_setup,
        build=read(BUILD_FILE) if has_setup else None,
    )


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines, joined where they end with a backslash, without comments and empty lines."""
    if "\0" in text:  # UTF-16, as PowerShell writes it, was read as UTF-8; pip reads it, too
        text = text.replace("\0", "").replace("\ufffd", "")
    for line in _CONTINUED.sub("", text.removeprefix("\ufeff")).splitlines():
        if stripped := _COMMENT.sub("", line).strip():
            yield stripped


def _parse(requirement: str) -> Requirement | None:
    """Return a requirement that names a package; None for a path or a bare URL."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(requirement)
    except InvalidRequirement:
        return None


def _applies(marker: Marker) -> bool:
    """Return whether a marker holds here; True for one without a value, which pip will report."""
    try:
        return marker.evaluate()
    except ValueError:  # a name or a comparison that packaging has not
        return True


def _is_local(requirement: str) -> bool:
    """Return whether a requirement is a path, as pip decides it."""
    _, at, url = requirement.partition(" @ ")
    target = url.strip() if at else requirement
    if target.startswith("file:"):
        return True
    return not _URL.match(target) and (
        target.startswith(".") or "/" in target or target.endswith((".whl", ".tar.gz", ".zip"))
    )

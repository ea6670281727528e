"""Files that appear with their whole content or not at all, even if the writer is killed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from launcher.shared.system_entropy import token_hex


def write_complete(path: Path, text: str) -> None:
    """Write a file in UTF-8, or replace one, at once. Raises OSError.

    On Linux the content has no name until it is complete (O_TMPFILE), so a killed process leaves
    nothing, unless the kill hits the two calls that replace an existing file. Elsewhere it leaves a
    hidden draft beside the file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not _write_unnamed(path, text, draft):
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a hidden draft beside a file; it replaces the file once the block has ended.

    A block that raises leaves the file as it was, and no draft. Raises OSError.
    """
    draft = path.with_name(f".{path.name[:100]}.{token_hex(4)}")
    try:
        yield draft
        draft.replace(path)  # which leaves a draft that is a hard link to the same file
    finally:
        draft.unlink(missing_ok=True)


def _write_unnamed(path: Path, text: str, draft: Path) -> bool:
    """Write a file without a name, then name it; return False where that is not possible."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    with contextlib.ExitStack() as stack:
        try:
            number = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
        except OSError:  # a file system without them
            return False
        file = stack.enter_context(open(number, "w", encoding="utf-8"))  # noqa: PTH123 - it has no path
        file.write(text)
        file.flush()
        try:
            _name(number, path)
        except FileExistsError:
            _name(number, draft)
            draft.replace(path)
        except OSError:  # no /proc
            return False
    return True


def _name(number: int, path: Path) -> None:
    # With a dir_fd, os.link calls linkat, which can follow the link in /proc (bpo-37612).
    folder = os.open("/", os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{number}", path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)

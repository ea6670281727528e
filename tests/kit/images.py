"""Images that tests of containers make from one with Python and numpy."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ENGINE = os.environ.get("LAUNCHER_ENGINE", "podman")
#: Python 3 and numpy, of Debian; the first that is present.
_BASES = ("localhost/launcher-numpy:1", "localhost/numpy-image:1")


def base_image() -> str:
    return next(name for name in _BASES if _engine("image", "exists", name).returncode == 0)


@contextmanager
def made_image(
    programs: Mapping[str, str], *, folders: Mapping[Path, str] = {}, changes: Sequence[str] = ()
) -> Iterator[str]:
    """An image with programs, by their paths, for one block; its name.

    folders: of this machine, and where the image has them. changes: as lines of a Dockerfile.
    """
    name = f"localhost/launcher-test-{uuid.uuid4().hex[:12]}"
    container = _must("create", base_image(), "true")
    try:
        with TemporaryDirectory() as folder:
            for path, text in programs.items():
                file = Path(folder, Path(path).name)
                file.write_text(text)
                file.chmod(0o755)
                _must("cp", str(file), f"{container}:{path}")
        for source, target in folders.items():
            _must("cp", str(source), f"{container}:{target}")
        _must("commit", "-q", *(f"--change={each}" for each in changes), container, name)
    finally:
        _must("rm", "--force", container)
    try:
        yield f"{name}:latest"
    finally:
        _must("rmi", "--force", name)


def _must(*words: str) -> str:
    answer = _engine(*words)
    assert answer.returncode == 0, (words, answer.stderr)
    return answer.stdout.strip()


def _engine(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ENGINE, *words], capture_output=True, text=True, check=False)

"""Images that tests of containers make from one with Python and numpy."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from containers import ENGINE, NUMPY_IMAGE


@contextmanager
def made_image(
    programs: Mapping[str, str], *, folders: Mapping[Path, str] = {}, changes: Sequence[str] = ()
) -> Iterator[str]:
    """An image with programs, by their paths, for one block; its name.

    folders: of this machine, and where the image has them. changes: as lines of a Dockerfile.
    """
    name = f"localhost/launcher-test-{uuid.uuid4().hex[:12]}"
    container = _must("create", NUMPY_IMAGE, "true")
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
    answer = subprocess.run([ENGINE, *words], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, (words, answer.stderr)
    return answer.stdout.strip()

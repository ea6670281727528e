"""The images that tests/build_containers.sh makes, others made from them, and sessions in both."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher.client.sessions import LocalSession, LogEvent

ENGINE = "podman"
#: Debian's Python with numpy.
NUMPY_IMAGE = "localhost/launcher-numpy:1"
#: What Podman's name server prints on a machine without a syslog.
NO_SYSLOG = "failed to connect to syslog: Initialization"


def torch_image() -> str:
    """The same with torch, Pillow and grpc of this environment."""
    tag = re.sub(r"[^\w.-]", "-", f"{version('torch')}-{version('numpy')}")
    return f"localhost/launcher-torch:{tag}"


def skip_without_image(image: str) -> None:
    import pytest  # scenario programs go without

    command = [ENGINE, "image", "exists", image]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"the image {image} is not present: tests/build_containers.sh makes it")


def session_in(
    folder: Path, isolation: str | None, image: str = NUMPY_IMAGE, **options: Any
) -> LocalSession:
    """A session below a folder, in any isolation."""
    from launcher.client.sessions import LocalSession  # slow, for few tests

    class OfContainers(LocalSession):
        """Without what Podman's name server prints in the log of the host that starts it."""

        def read_log(self, *place: Any, **limit: Any) -> tuple[list[LogEvent], str]:
            events, position = super().read_log(*place, **limit)
            return [event for event in events if event.text != NO_SYSLOG], position

    kind = OfContainers if isolation == "container" else LocalSession
    return kind(folder / "home", isolation, **session_options(isolation, image), **options)


def left_of(job: Path) -> list[str]:
    """What an engine has of a job, by the folder of the job: containers and networks."""
    found = []
    for words in (["ps", "--all"], ["network", "ls"]):
        command = [ENGINE, *words, "--quiet", "--filter", f"label=launcher.job={job}"]
        found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return found


def session_options(isolation: str | None, image: str = NUMPY_IMAGE) -> dict[str, Any]:
    """The options of a session whose isolation may be `container`."""
    return {"engine": ENGINE, "image": image} if isolation == "container" else {}


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

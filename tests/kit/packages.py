"""Tiny packages for tests of pip: wheels made here, and an index that counts its requests."""

from __future__ import annotations

import contextlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str = "1.0", *, requires: str = "") -> Path:
    """A pure wheel of one module, which says its version."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", f'VERSION = "{version}"\n')
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


class Index:
    """A package index of this machine: a folder per package with its wheels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.url = ""
        self.is_open = threading.Event()
        self.is_open.set()

    def add(self, name: str, version: str = "1.0", *, requires: str = "") -> None:
        make_wheel(
            self.folder / "simple" / name.replace("_", "-"), name, version, requires=requires
        )

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Answer nothing until the block ends."""
        self.is_open.clear()
        try:
            yield
        finally:
            self.is_open.set()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, index: Index) -> None:
        self._index = index
        super().__init__(*arguments, directory=str(index.folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._index.asked.append(self.path)
        self._index.is_open.wait()
        with contextlib.suppress(ConnectionError):  # pip was killed meanwhile
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serve_index(folder: Path) -> Iterator[Index]:
    """Serve an index for one block."""
    index = Index(folder)
    (folder / "simple").mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, index=index))
    index.url = f"http://127.0.0.1:{server.server_port}/simple/"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

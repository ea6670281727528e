"""A registry of images on this machine: the few requests of its API with which an engine pulls."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


class Registry(ThreadingHTTPServer):
    """Images by name; `denied` wants a password that nobody has.

    released: set when the layers of the image `slow` may be sent to their end.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files: dict[str, tuple[str, bytes]] = {}
        self.released = threading.Event()

    def name(self, image: str) -> str:
        return f"127.0.0.1:{self.server_address[1]}/{image}:1"

    def add(
        self, image: str, *, architecture: str = "amd64", is_index: bool = False, size: int = 1000
    ) -> str:
        """An image with one file; its digest. is_index: one that lists its architectures."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("file")
            entry.size = size
            tar.addfile(entry, io.BytesIO(bytes(size)))
        layer = gzip.compress(packed.getvalue(), compresslevel=0)
        config: dict[str, Any] = {
            "os": "linux",
            "architecture": architecture,
            "rootfs": {"type": "layers", "diff_ids": [_digest(packed.getvalue())]},
        }
        blobs = [
            self._blob(image, "application/vnd.oci.image.config.v1+json", _json(config)),
            self._blob(image, "application/vnd.oci.image.layer.v1.tar+gzip", layer),
        ]
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": blobs[0]}
        described = self._manifest(image, _MANIFEST, {**manifest, "layers": blobs[1:]})
        if is_index:
            described["platform"] = {"os": "linux", "architecture": architecture}
            index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}
            described = self._manifest(image, _INDEX, index)
        return str(described["digest"])

    def _manifest(self, image: str, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
        text = _json(content)
        for reference in ("1", _digest(text)):
            self.files[f"/v2/{image}/manifests/{reference}"] = (kind, text)
        return {"mediaType": kind, "digest": _digest(text), "size": len(text)}

    def _blob(self, image: str, kind: str, content: bytes) -> dict[str, Any]:
        self.files[f"/v2/{image}/blobs/{_digest(content)}"] = (kind, content)
        return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


class _Answer(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/v2/denied/"):
            challenge = {"WWW-Authenticate": 'Basic realm="images"'}
            self._answer(401, "application/json", _error("UNAUTHORIZED"), challenge)
        elif self.path == "/v2/":
            self._answer(200, "application/json", b"{}")
        elif self.path in self.server.files:
            self._answer(200, *self.server.files[self.path])
        else:
            self._answer(404, "application/json", _error("MANIFEST_UNKNOWN"))

    do_HEAD = do_GET  # noqa: N815  (of http.server)

    def _answer(
        self, status: int, kind: str, content: bytes, headers: Mapping[str, str] = {}
    ) -> None:
        self.send_response(status)
        digest = {"Docker-Content-Digest": _digest(content)} if status == 200 else {}
        length = {"Content-Type": kind, "Content-Length": str(len(content))}
        for name, value in {**length, **digest, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if "/slow/blobs/" in self.path and len(content) > 500:
            self.wfile.write(content[:500])
            self.wfile.flush()
            self.server.released.wait(540)
            content = content[500:]
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_images(folder: Path) -> Iterator[tuple[Registry, dict[str, str]]]:
    """A registry, and the variables by which Podman talks to it without TLS."""
    with Registry() as registry:
        threading.Thread(target=registry.serve_forever, args=(0.05,), daemon=True).start()
        place = f"127.0.0.1:{registry.server_address[1]}"
        settings = folder / "registries.conf"
        settings.write_text(f'[[registry]]\nlocation = "{place}"\ninsecure = true\n')
        yield registry, {"CONTAINERS_REGISTRIES_CONF": str(settings)}
        registry.released.set()
        registry.shutdown()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _error(code: str) -> bytes:
    return _json({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]})

"""The images that tests/build_containers.sh makes, and sessions whose hosts run them."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version
from typing import Any

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


def session_options(isolation: str | None, image: str = NUMPY_IMAGE) -> dict[str, Any]:
    """The options of a session whose isolation may be `container`."""
    return {"engine": ENGINE, "image": image} if isolation == "container" else {}

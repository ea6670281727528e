"""A look into an image, by one short run of a container: what a job would find there."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from launcher.client.sessions.local.container.container_engine import find_engine, last_line
from launcher.client.sessions.local.container.container_image import (
    ImageMissing,
    ensure_image,
    machine_platform,
)
from launcher.errors import PlatformError

#: Runs in any image with a shell; its last line is JSON of an image with Python 3.
_SHELL = (
    'id -u; command -v train || echo; command -v python3 >/dev/null || exit 0; exec python3 -c "$@"'
)
#: Of any Python 3, which need not have importlib.metadata (3.8).
_PYTHON = """\
import json, platform, re, sys
from importlib.util import find_spec
try:
    from importlib.metadata import distributions
except ImportError:
    distributions = list
packages = {}
for each in distributions():
    name = re.sub("[-_.]+", "-", each.metadata["Name"] or "").lower()
    packages.setdefault(name, each.version)
modules = [name for name in sys.argv[1:] if find_spec(name)]
print(json.dumps([platform.python_version(), packages, modules]))
"""


#: Characters of an answer that cannot be read.
_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class ImageContents:
    """Contents of an image, as far as a job needs them.

    name, digest, platform: as its engine knows it; here: the platform of this machine's containers.
    user: the number of the user in whose name its programs run. entry_point: its own, or its
        program `train`. python: the version of its python3; None without one.
    packages: versions by name, in lower case with dashes. modules: which of the wanted ones it has.
    """

    name: str
    digest: str
    platform: str
    here: str
    user: str
    entry_point: str
    python: str | None
    packages: Mapping[str, str]
    modules: Collection[str]


def look_into_image(
    image: str,
    modules: Collection[str],
    *,
    engine: str | None = None,
    on_message: Callable[[str], None],
) -> ImageContents:
    """Return what an image has, which is pulled if it is not present; no job runs.

    modules: which are looked for. engine: see LocalSession. on_message: called with the progress.

    Raises PlatformError when there is no engine or no image, or when it cannot run a shell.
    """
    used = find_engine(engine)
    if obstacle := used.find_obstacle():
        raise PlatformError(obstacle)
    try:
        facts = ensure_image(used, image, requested_end=lambda: None, on_message=on_message)
    except ImageMissing as error:
        raise PlatformError(str(error)) from error
    answer = used.run_alone([], image, ["sh", "-c", _SHELL, "sh", _PYTHON, *modules])
    if answer.returncode != 0:
        raise PlatformError(f"{image} cannot be looked into: {last_line(answer.stderr)}")
    try:
        user, train, *python = answer.stdout.splitlines()
        version, packages, found = json.loads(python[-1]) if python else (None, {}, ())
    except ValueError as error:
        said = answer.stdout.strip()[-_SHOWN:]
        raise PlatformError(f"{image} cannot be looked into: it answered {said!r}") from error
    return ImageContents(
        name=image,
        digest=facts.digest,
        platform=facts.platform,
        here=machine_platform(),
        user=user,
        entry_point=" ".join(facts.command) or train,
        python=version,
        packages=packages,
        modules=found,
    )

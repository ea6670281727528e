"""The image of a job in containers: found, or pulled with its progress shown.

Runs in the job's platform process, so that a job may be left or stopped meanwhile.
"""

from __future__ import annotations

import base64
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.request import image_of
from launcher.client.sessions.local.container.container_engine import (
    ContainerEngine,
    ImageFacts,
    last_line,
)
from launcher.client.sessions.local.host.overlay_install import InstallStopped
from launcher.client.sessions.local.host.toolkit_mode import needs_source_inside, source_note
from launcher.client.sessions.local.job.job_description import JobState
from launcher.errors import PlatformError
from launcher.shared import visible_gpus

if TYPE_CHECKING:
    from launcher.client.sessions.local.job.job_folder import ContainerSettings
    from launcher.client.spec import JobSpec
    from launcher.shared import TrainingJobRequest

#: The word for the CPU variant of the request's image.
CPU_IMAGE = "cpu"

_POLL_SECONDS = 0.2
#: A registry of Amazon ECR, and its account and region.
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?(?=/)"
)
#: What a tag of AWS's images says about GPUs: "2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker".
_CUDA = re.compile(r"-cu\d+(?=-|$)")


class ImageMissing(Exception):
    """An image is not present and cannot be pulled; the text is the job's reason."""


def cpu_variant(image: str) -> str:
    """Return AWS's image for CPUs of the same version; the image itself if it is for CPUs.

    >>> cpu_variant("pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker")
    'pytorch-training:2.6.0-cpu-py312-ubuntu22.04-sagemaker'
    """
    name, colon, tag = image.rpartition(":")
    return f"{name}{colon}{_CUDA.sub('', tag.replace('-gpu-', '-cpu-'))}"


def chosen_image(request: TrainingJobRequest, wanted: str | None) -> str:
    """Return the image that hosts run: the wanted one, else the request's or its CPU variant."""
    of_request = request["AlgorithmSpecification"].get("TrainingImage", "")
    if wanted == CPU_IMAGE:
        return cpu_variant(of_request)
    return wanted or of_request


def image_of_framework(spec: JobSpec) -> str | None:
    """Return AWS's image of a job's framework_version, in the environment's region; None without.

    Raises SpecError if there is no such image.
    """
    return image_of(spec, os.environ.get("AWS_DEFAULT_REGION", "us-east-1"))


def ensure_image(
    engine: ContainerEngine,
    image: str,
    *,
    requested_end: Callable[[], JobState | None],
    on_message: Callable[[str], None],
) -> ImageFacts:
    """Return what an image is; pull it first if it is not present.

    requested_end: what a user or a deadline requires now. on_message: called with the progress.

    Raises ImageMissing when it cannot be pulled, and InstallStopped.
    """
    facts = engine.find_image(image)
    if facts is None:
        on_message(f"Pulling {image}")
        _log_in(engine, image)
        _pull(engine, image, requested_end, on_message)
        facts = engine.find_image(image)
    if facts is None:
        raise ImageMissing(f"{image} was pulled, but {engine.name} does not find it")
    if facts.platform != machine_platform() and not _is_emulated(facts.platform):
        raise ImageMissing(
            f"the image {image} is for {facts.platform}, and this machine is {machine_platform()} "
            f"and emulates no other\n  fix: build it for this machine (docker build --platform "
            f"{machine_platform()} ...), or install an emulator (apt-get install qemu-user-static)"
        )
    return facts


def choice_notes(request: TrainingJobRequest, container: ContainerSettings) -> Iterator[str]:
    """Yield what a user should know about the choice of an image."""
    wanted = request["AlgorithmSpecification"].get("TrainingImage")
    if wanted != container.image:
        yield f"hosts run the image {container.image}, and SageMaker would run {wanted}"
    if "-gpu-" in container.image and not visible_gpus(os.environ):
        yield (
            f"{container.image} is for GPUs, and this machine has none: --image {CPU_IMAGE} runs "
            f"{cpu_variant(container.image)}"
        )


def image_notes(
    request: TrainingJobRequest, container: ContainerSettings, facts: ImageFacts
) -> Iterator[str]:
    """Yield what a user should know about a present image."""
    if needs_source_inside(request):
        yield source_note(request)
    if facts.platform != machine_platform():
        yield (
            f"{container.image} is for {facts.platform}, and this machine is "
            f"{machine_platform()}, which emulates it: hosts are slow"
        )
    engine = ContainerEngine(program=container.engine)
    if not facts.runs_as_root and not (engine.words.mapped and engine.is_rootless()):
        yield (
            f"hosts run as root, and not as the image's user {facts.user}: it could not write into "
            "/opt/ml (rootless Podman lets it)"
        )


def _is_emulated(of: str) -> bool:
    """Return whether this machine runs programs of another platform, as engines of a Mac do."""
    names = {"arm64": "aarch64", "amd64": "x86_64"}
    architecture = of.partition("/")[2].partition("/")[0]
    handler = Path("/proc/sys/fs/binfmt_misc", f"qemu-{names.get(architecture, architecture)}")
    return not sys.platform.startswith("linux") or handler.exists()


def machine_platform() -> str:
    """Return the platform of this machine's containers, such as "linux/amd64"."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    machine = platform.machine()
    return f"linux/{known.get(machine, machine)}"


def _log_in(engine: ContainerEngine, image: str) -> None:
    """Log in to Amazon ECR with the user's credentials; other registries as the engine is."""
    registry = _ECR.match(image)
    if registry is None:
        return
    import boto3  # slow to import; only a pull from ECR needs it
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("ecr", region_name=registry["region"])
        answer = client.get_authorization_token(registryIds=[registry["account"]])
        token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
        user, _, password = token.partition(":")
        engine.log_in(registry.group(), user, password)
    except (BotoCoreError, ClientError, PlatformError) as error:
        raise ImageMissing(_how_to_get(engine, image, str(error))) from error


def _pull(
    engine: ContainerEngine,
    image: str,
    requested_end: Callable[[], JobState | None],
    on_message: Callable[[str], None],
) -> None:
    child = subprocess.Popen(
        engine.pull_command(image, machine_platform()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert child.stdout is not None
    said = ""
    os.set_blocking(child.stdout.fileno(), False)
    try:
        while True:
            ended = child.poll() is not None
            new = child.stdout.read() or b""
            said = (said + new.decode(errors="replace"))[-10_000:]
            if new:
                on_message(f"Pulling {image}: {last_line(said.replace(chr(13), chr(10)))}")
            if ended:
                break
            ending = requested_end()
            if ending is not None and ending is not JobState.INTERRUPTED:
                raise InstallStopped(ending)
            time.sleep(_POLL_SECONDS)
    finally:
        child.kill()
        child.wait()
    if child.returncode != 0:
        raise ImageMissing(_how_to_get(engine, image, said))


#: What engines say when a pull fails, what that means, and how to mend it; the first that is found
#: decides. Sources: Docker 28's and Podman 4.3's messages, and the codes of the registries' API
#: (github.com/opencontainers/distribution-spec, "Error Codes").
_CAUSES = (
    (
        r"no space left on device",
        "no space is left for it",
        "free space ({engine} system df lists what images take)",
    ),
    (
        r"no image found in (?:manifest list|image index)|no matching manifest",
        "it is not made for {platform}",
        "build it for this machine as well (docker build --platform {platform} ...)",
    ),
    (
        r"unauthorized|denied|authentication required|no basic auth|(?i:forbidden)",
        "its registry does not let you pull it",
        "log in ({login}), and make it present ({engine} pull {image})",
    ),
    (
        r"manifest unknown|name unknown|not found|does not exist|short-name",
        "its registry has no such image",
        "correct its name or tag, or build it here ({engine} build -t {image} .)",
    ),
    (
        r"no such host|server misbehaving|connection refused|timeout|unreachable|TLS|EOF",
        "its registry does not answer",
        "make it present ({engine} pull {image}) where the network lets you",
    ),
)


def _how_to_get(engine: ContainerEngine, image: str, said: str) -> str:
    """Return the reason of a job whose image is not to be had, with its mend."""
    registry = _ECR.match(image)
    login = f"{engine.name} login {image.partition('/')[0]}"
    if registry is not None:
        login = (
            f"aws ecr get-login-password --region {registry['region']} | {engine.name} login "
            f"--username AWS --password-stdin {registry.group()}"
        )
    known = (each for each in _CAUSES if re.search(each[0], said))
    default = ("", "it cannot be pulled", "make it present ({login} && {engine} pull {image})")
    _, cause, mend = next(known, default)
    words = {
        "engine": engine.name,
        "image": image,
        "login": login,
        "platform": machine_platform(),
    }
    return (
        f"the image {image} is not present, and {cause.format(**words)}: {last_line(said)}\n"
        f"  fix: {mend.format(**words)}; or run another one: --image NAME"
    )

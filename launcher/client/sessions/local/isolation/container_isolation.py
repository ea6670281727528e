"""Isolation `container`: a host is a container of Docker or Podman, in the image of the job.

As on SageMaker it runs the request's entry point, or else the image's own with the argument
`train`. Its /opt/ml is the host's folder; channels are read-only there. Hosts find each other by
name in a network of their own, in which no port is published. They see nothing else of this
machine. Where the engine makes no network, they share the loopback of one more container.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from launcher.client.sessions.local.container.container_engine import (
    ContainerEngine,
    bind_options,
    environment_options,
    find_engine,
    label_of,
)
from launcher.client.sessions.local.container.job_containers import (
    CONTAINER_INTERFACE,
    HostContainer,
    holder_name,
    network_name,
    user_options,
)
from launcher.client.sessions.local.isolation.host_launch_spec import (
    HostLaunchSpec,
    StartPlan,
    hard_link_channel_files,
    read_only_channels,
    write_hosts_file,
)
from launcher.errors import PlatformError
from launcher.shared import (
    DEFAULT_ML_ROOT,
    EVENTS_VARIABLE,
    VISIBLE_GPUS_VARIABLE,
    MlPaths,
)

_INSIDE = MlPaths(DEFAULT_ML_ROOT)


def plan_start(launch_spec: HostLaunchSpec) -> StartPlan:
    """Create the host's channels and return the process that runs its container.

    Raises PlatformError for a path that an engine cannot be given.
    """
    settings = launch_spec.container
    assert settings is not None, "the settings of a job in containers have them"
    hard_link_channel_files(launch_spec)
    engine = ContainerEngine(program=settings.engine)
    job = launch_spec.tree.path.parent.parent
    container = HostContainer(
        engine=engine,
        name=f"{network_name(job)}-{launch_spec.host.name}",
        image=settings.image,
        tree=launch_spec.tree,
        pid_file=launch_spec.tree.path / "container-pid",
    )
    variables = {**launch_spec.environment, EVENTS_VARIABLE: str(_INSIDE.events)}
    given, environment = environment_options(variables)
    options = [
        *("--name", container.name, "--label", label_of(job)),
        *engine.pid_file_options(container.pid_file),
        *_network_options(launch_spec, engine, job),
        *_options_of_image(engine, settings.image),
        *(("--memory", settings.memory) if settings.memory else ()),
        *(engine.words.gpus if variables.get(VISIBLE_GPUS_VARIABLE) else ()),
        *_mounts(launch_spec),
        *given,
    ]
    return StartPlan(
        command=engine.run_command(options, settings.image, launch_spec.command),
        environment=environment,
        folder=launch_spec.tree.path,  # where Podman leaves a file "oom"
        wrappers=1,  # the engine's program
        container=container,
    )


def _network_options(launch_spec: HostLaunchSpec, engine: ContainerEngine, job: Path) -> list[str]:
    """Return the options for a network with the name of the host, and those of all others."""
    name = launch_spec.host.name
    if launch_spec.host.interface == CONTAINER_INTERFACE:
        own = ["--hostname", name, "--network-alias", name]
        return [*own, "--network", network_name(job)]
    names = bind_options(write_hosts_file(launch_spec), Path("/etc/hosts"), read_only=True)
    own = [*engine.words.name_in_shared, name] if engine.words.name_in_shared else []
    return [*own, *names, "--network", f"container:{holder_name(job)}"]


def find_obstacle(engine: str | None = None) -> str | None:
    """Return why no container engine works on this machine, or the one that is named; or None."""
    try:
        return find_engine(engine).find_obstacle()
    except PlatformError as error:
        return str(error)


def _mounts(launch_spec: HostLaunchSpec) -> Iterator[str]:
    yield from bind_options(launch_spec.tree.ml.root, _INSIDE.root, read_only=False)
    for name, source in read_only_channels(launch_spec):
        yield from bind_options(source, _INSIDE.channels / name, read_only=True)


@functools.cache
def _options_of_image(engine: ContainerEngine, image: str) -> tuple[str, ...]:
    """Return what all hosts of a job share; to ask for it for each of them would take seconds."""
    facts = engine.find_image(image)
    user = user_options(engine, image, facts) if facts else []
    return (*user, *_shared_memory(engine))


def _shared_memory(engine: ContainerEngine) -> list[str]:
    """Return the option for half of the memory as /dev/shm, which is what Linux gives by default.

    The engines' own default, 64 MB, is too small for batches of torch's workers.
    """
    memory = engine.total_memory()
    return ["--shm-size", str(memory // 2)] if memory else []

"""Options of jobs on this machine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import click

from launcher.client.cli.options.shared_options import gathered
from launcher.client.sessions import Isolation
from launcher.client.spec import JobSpec, as_one_rank
from launcher.shared import HostFailure


@dataclass(frozen=True, kw_only=True)
class LocalChoices:
    """Choices for the hosts of a local job.

    isolation: None for the best that works here. python: None for the running interpreter. engine:
    None for what is there. image: None for the job's. host_memory: None without a limit.
    """

    isolation: str | None = None
    host_failure: str = HostFailure.FAIL.value
    no_install: bool = False
    python: str | None = None
    engine: str | None = None
    image: str | None = None
    host_memory: str | None = None
    credentials: bool = False

    def session_arguments(self, session: str) -> dict[str, Any]:
        """Return the arguments of a session of this name; none if it is not the local one."""
        if session == "local":
            arguments = dataclasses.asdict(self)
            install = not arguments.pop("no_install")
            return {**arguments, "install": install}
        for choice in dataclasses.fields(self):
            if getattr(self, choice.name) != choice.default:
                option = choice.name.replace("_", "-")
                raise click.UsageError(f"--{option} goes with a local job")
        return {}


@dataclass(frozen=True, kw_only=True)
class DebugChoice:
    """The wish to run rank 0 of a job alone in this terminal: `debug`, or a port for debugpy."""

    debug: bool = False
    debugpy: int | None = None

    def __bool__(self) -> bool:
        return self.debug or self.debugpy is not None

    def one_rank_of(
        self, spec: JobSpec, local: LocalChoices, session: str | None, *, is_left: bool
    ) -> JobSpec:
        """Return the job that does this.

        Raises UsageError where no terminal reaches it, and SpecError for a job without such a rank.
        """
        option = "--debug" if self.debugpy is None else "--debugpy"
        isolation = local.isolation or ""
        out_of_reach = {Isolation.CONTAINER.value: "--debug", Isolation.NETWORK.value: "--debugpy"}
        if out_of_reach.get(isolation) in ("--debug", option):
            what = f"{option} does not reach into isolation {isolation}"
            raise click.UsageError(f"{what}: give --isolation sandbox or process")
        if is_left or session not in (None, "local"):
            raise click.UsageError(
                f"{option} runs the job in this terminal, and does not go with "
                f"{'--detach' if is_left else f'--session {session}'}"
            )
        return as_one_rank(spec, "pdb" if self.debugpy is None else f"debugpy:{self.debugpy}")


#: --debug and --debugpy, which a verb gets as one `debug`.
debug_options = gathered(
    "debug",
    DebugChoice,
    click.option(
        "--debug",
        is_flag=True,
        help="Run rank 0 alone in this terminal, on this machine: pdb opens at a breakpoint(), at "
        "Ctrl-C, and at the exception that ends the script.",
    ),
    click.option(
        "--debugpy",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="As --debug, with debugpy in place of pdb: the script waits for an editor at PORT.",
    ),
)

#: The options of local jobs, which a verb gets as one `local`.
local_run_options = gathered(
    "local",
    LocalChoices,
    click.option(
        "--isolation",
        type=click.Choice([kind.value for kind in Isolation]),
        help="How local hosts are isolated [default: config.yaml's, or sandbox where it works].",
    ),
    click.option(
        "--host-failure",
        type=click.Choice([each.value for each in HostFailure]),
        default=HostFailure.FAIL.value,
        help="When a local host dies: fail the job, or continue while its group has other hosts.",
    ),
    click.option(
        "--no-install",
        is_flag=True,
        help="With a local job: do not install requirements.txt; warn about what is missing.",
    ),
    click.option(
        "--python",
        metavar="PATH",
        help="With a local job: the interpreter of its hosts, or its virtual environment's folder.",
    ),
    click.option(
        "--engine",
        metavar="PROGRAM",
        help="With --isolation container: docker, podman or a path [default: $LAUNCHER_ENGINE, "
        "config.yaml's, or what is there].",
    ),
    click.option(
        "--image",
        metavar="NAME",
        help="With --isolation container: run this image instead of the job's; cpu: AWS's CPU "
        "image of the same version.",
    ),
    click.option(
        "--host-memory",
        metavar="SIZE",
        help="With --isolation container: each host's limit of memory, such as 4g.",
    ),
    click.option(
        "--credentials",
        is_flag=True,
        help="With a local job: give its hosts short-lived AWS credentials of yours, for programs "
        "that call AWS; without it, they get none.",
    ),
)

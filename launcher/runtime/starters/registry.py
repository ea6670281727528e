"""The registry of starters, by the name in the job document.

Another package lists its starters in the entry point group "launcher.starters"; the job documents
of its distribution have their names.
"""

from __future__ import annotations

from launcher.errors import ContractError
from launcher.runtime.starters.base import Starter
from launcher.runtime.starters.jax_starter import JaxStarter
from launcher.runtime.starters.mpi_starter import MpiStarter
from launcher.runtime.starters.multi_worker_mirrored_starter import MultiWorkerMirroredStarter
from launcher.runtime.starters.parameter_server_starter import ParameterServerStarter
from launcher.runtime.starters.python_starter import PythonStarter
from launcher.runtime.starters.torchrun_starter import TorchrunStarter
from launcher.shared import Launch

ENTRY_POINTS = "launcher.starters"

STARTERS: dict[str, type[Starter]] = {
    Launch.PYTHON: PythonStarter,
    Launch.TORCHRUN: TorchrunStarter,
    Launch.MPI: MpiStarter,
    Launch.MULTI_WORKER_MIRRORED: MultiWorkerMirroredStarter,
    Launch.PARAMETER_SERVER: ParameterServerStarter,
    Launch.JAX: JaxStarter,
}


def starter_for(launch: str) -> type[Starter]:
    """Return the starter of that name; raise ContractError if there is none."""
    if launch in STARTERS:
        return STARTERS[launch]
    from importlib.metadata import entry_points  # 15 ms to import, and few jobs need it

    for point in entry_points(group=ENTRY_POINTS, name=launch):
        starter: type[Starter] = point.load()
        return starter
    raise ContractError(
        f"the job document has launch: {launch}, but this image has no starter of that name: "
        f"use one of {', '.join(STARTERS)}, or install the package that provides it (entry point "
        f"group {ENTRY_POINTS})"
    )

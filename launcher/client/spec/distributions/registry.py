"""The registry of distributions: ours, and those of other packages.

Another package lists its subclasses of Distribution in the entry point group
"launcher.distributions", and their starters in "launcher.starters".
"""

from __future__ import annotations

from collections.abc import Iterator

from launcher.client.entry_points import load
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.distributions.data_parallel import DataParallel
from launcher.client.spec.distributions.jax_distribution import Jax
from launcher.client.spec.distributions.model_parallel import ModelParallel
from launcher.client.spec.distributions.mpi_distribution import Mpi
from launcher.client.spec.distributions.multi_worker_mirrored import MultiWorkerMirrored
from launcher.client.spec.distributions.parameter_server import ParameterServer
from launcher.client.spec.distributions.toolkit_distribution import Toolkit
from launcher.errors import ContractError
from launcher.shared import Launch, TrainerPart

ENTRY_POINTS = "launcher.distributions"

#: DataParallel before ModelParallel: both can have written a part with few settings.
#: ParameterServer before Toolkit, which takes its word with the values of SDK v2.
DISTRIBUTIONS: tuple[type[Distribution], ...] = (
    DataParallel,
    ModelParallel,
    Mpi,
    MultiWorkerMirrored,
    ParameterServer,
    Jax,
    Toolkit,
)
#: The class whose messages an unclear document gets.
DEFAULT = DataParallel


def distributions() -> Iterator[type[Distribution]]:
    """Yield the distributions; other packages are looked for only after ours.

    Raises PlatformError for an entry point that cannot be loaded.
    """
    yield from DISTRIBUTIONS
    from importlib.metadata import entry_points  # 15 ms to import, and few jobs come here

    for point in entry_points(group=ENTRY_POINTS):
        yield load(point)


def distribution_words() -> dict[str, type[Distribution]]:
    """Return the distributions that have a key of their own in YAML, by that key."""
    return {kind.word: kind for kind in distributions() if kind.word}


def distribution_from(trainer: TrainerPart) -> Distribution | None:
    """Return the distribution that has written a part of a job document; None if none was given.

    Raises ContractError if it is of a package that is not installed here.
    """
    if trainer.launch == Launch.PYTHON:
        return None
    made = (kind.from_trainer_part(trainer) for kind in distributions())
    distribution = next((each for each in made if each is not None), None)
    if distribution is None:
        raise ContractError(
            f"the job was started by {trainer.launch}, which no distribution here writes: install "
            f"the package that has it (entry point group {ENTRY_POINTS})"
        )
    return distribution

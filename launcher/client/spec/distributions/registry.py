"""The registry of distributions, and the reading of one in a document or in SDK v2's dictionary.

Another package lists its subclasses of Distribution in the entry point group
"launcher.distributions", and their starters in "launcher.starters".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.entry_points import load
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.distributions.cluster_distributions import (
    Jax,
    Mpi,
    MultiWorkerMirrored,
    ParameterServer,
)
from launcher.client.spec.distributions.data_parallel import DataParallel
from launcher.client.spec.distributions.model_parallel import ModelParallel
from launcher.client.spec.distributions.toolkit_distribution import Toolkit
from launcher.client.spec.job_parts import names
from launcher.errors import ContractError, Problem, SpecError
from launcher.shared import Launch, TrainerPart, choice_fix, did_you_mean

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


def kind_of(written: object) -> type[Distribution]:
    """Return the class of a distribution written in a document; the default if none is meant."""
    return next((kind for kind in distributions() if kind.is_meant_in(written)), DEFAULT)


def fix_of_distribution(declared: type, key: str) -> str | None:
    """Suggest a fix for an unknown distribution field; None if there is nothing to suggest."""
    if not issubclass(declared, Distribution) or not declared.word:
        return None
    kinds = distribution_words()
    if key in kinds:
        return "write one distribution, alone"
    for word, kind in kinds.items():
        if any(part.name == key for part in dataclasses.fields(kind)):  # type: ignore[arg-type]
            return f"remove it, or use {word}, which has it"
    near = did_you_mean(key, kinds)
    return f'did you mean "{near}"?' if near else None


def as_distribution(
    distribution: Distribution | Mapping[str, object] | None,
) -> Distribution | None:
    """Convert SDK v2's dictionary, such as {"torch_distributed": {"enabled": True}}, to ours.

    A distribution of ours is returned unchanged; None if nothing is enabled. Raises SpecError for
    unknown distributions, for ours written as in YAML, and for two at once. The rules check the
    options of AWS's own libraries later, with the rest of the job.
    """
    if not isinstance(distribution, Mapping):
        return distribution
    _reject_yaml(distribution)
    strategies: dict[str, Any] = {
        name: options for name, options in distribution.items() if _enabled(options)
    }
    groups = names(strategies.pop("instance_groups", ()))
    _reject_unknown(strategies)
    strategies = _with_library_of_ddp(strategies)
    meant = _kinds_meant(strategies, has_groups=bool(groups))
    if len(meant) > 1:
        raise _distribution_error(
            f"two distributions at once: {' and '.join(strategies)}", "keep one of them"
        )
    return limited_to(meant[0].from_sdk_v2(strategies), groups) if meant else None


def _kinds_meant(strategies: Mapping[str, object], *, has_groups: bool) -> list[type[Distribution]]:
    """Return the classes that the strategies' keys mean: AWS's library if one is among them."""
    known = list(distributions())
    if has_groups:
        on_groups = [kind for kind in known if strategies.keys() & set(kind.sdk_v2_group_keys)]
        if on_groups and len(strategies) == 1:
            return on_groups
    meant = [kind for kind in known if strategies.keys() & set(kind.sdk_v2_keys)]
    return [kind for kind in meant if not kind.runs_launcher] or meant


def limited_to(distribution: Distribution, groups: tuple[str, ...]) -> Distribution:
    """Return the distribution limited to groups; AWS's toolkit takes them from the roles."""
    fields = [part.name for part in dataclasses.fields(distribution)]  # type: ignore[arg-type]
    if not groups or "instance_groups" not in fields:
        return distribution
    limited: Distribution = dataclasses.replace(  # type: ignore[type-var]
        distribution, instance_groups=groups
    )
    return limited


def _with_library_of_ddp(strategies: dict[str, Any]) -> dict[str, Any]:
    """Turn a `pytorchddp` with options for mpirun into the library that SDK v2 starts for it.

    Without such options torchrun starts the same script, in any image.
    """
    options = strategies.get("pytorchddp")
    if not isinstance(options, Mapping) or not options.get("custom_mpi_options"):
        return strategies
    others = {name: given for name, given in strategies.items() if name != "pytorchddp"}
    if "smdistributed" in others:
        raise _distribution_error(
            "two distributions at once: pytorchddp and smdistributed", "keep one of them"
        )
    return {**others, "smdistributed": {"dataparallel": dict(options)}}


def _enabled(options: object) -> bool:
    """Return whether a strategy, or one of the libraries in it, is enabled."""
    if not isinstance(options, Mapping):
        return bool(options)
    if "enabled" in options:
        return bool(options["enabled"])
    return any(isinstance(inner, Mapping) and inner.get("enabled") for inner in options.values())


def _reject_yaml(strategies: Mapping[str, object]) -> None:
    """Refuse a distribution written as in YAML: without "enabled" it would count as off."""
    of_sdk_v2 = {key for kind in DISTRIBUTIONS for key in kind.sdk_v2_keys}
    for kind in DISTRIBUTIONS:
        if kind.word in strategies and kind.word not in of_sdk_v2:
            what = f'"{kind.word}" is not a name of SDK v2\'s dictionaries'
            raise _distribution_error(what, f"write launcher.{kind.__name__}(...)")


def _reject_unknown(strategies: Mapping[str, object]) -> None:
    known = [key for kind in distributions() for key in kind.sdk_v2_keys]
    for name in strategies:
        if name not in known:
            raise _distribution_error(f"{name!r} is not a distribution", choice_fix(name, known))


def _distribution_error(what: str, fix: str) -> SpecError:
    return SpecError([Problem(what=what, where="distribution", fix=fix)])

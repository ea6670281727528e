"""Interpretation of a written `distribution`: in a document, or as SDK v2's dictionary."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any

from launcher.client.spec.distribution import (
    TOOLKIT_STRATEGIES,
    WORDS,
    DataParallel,
    Distribution,
    Mpi,
    Toolkit,
)
from launcher.client.spec.spec_findings import choice_fix, did_you_mean
from launcher.errors import Problem, SpecError

#: SDK v2's keys for a DistributedDataParallel script under torchrun.
_TORCHRUN_STRATEGIES = ("torch_distributed", "pytorchddp")


def kind_of(written: Any) -> type:
    """Return the class of a distribution written in a document; DataParallel by default."""
    if isinstance(written, str):
        words = {written}
    else:
        words = set(written) if isinstance(written, Mapping) else set()
    if words & set(TOOLKIT_STRATEGIES):
        return Toolkit
    return next((kind for kind, word in WORDS.items() if words == {word}), DataParallel)


def fix_of_distribution(declared: type, key: str) -> str | None:
    """Suggest a fix for an unknown distribution field; None if there is nothing to suggest."""
    if declared not in WORDS:
        return None
    if key in WORDS.values():
        return "write one distribution, alone"
    for kind, word in WORDS.items():
        if any(part.name == key for part in dataclasses.fields(kind)):
            return f"remove it, or use {word}, which has it"
    near = did_you_mean(key, WORDS.values())
    return f'did you mean "{near}"?' if near else None


def as_distribution(
    distribution: Distribution | Mapping[str, Any] | None,
) -> Distribution | None:
    """Convert SDK v2's dictionary, such as {"torch_distributed": {"enabled": True}}, to ours.

    A distribution of ours is returned unchanged; None if nothing is enabled. Raises SpecError for
    unknown distributions and for two at once. The rules check the options of AWS's own libraries
    later, with the rest of the job.
    """
    if not isinstance(distribution, Mapping):
        return distribution
    strategies = {name: options for name, options in distribution.items() if _enabled(options)}
    strategies.pop("instance_groups", None)
    _reject_unknown(strategies)
    if strategies.keys() & set(TOOLKIT_STRATEGIES):
        return Toolkit(strategies=strategies)
    if len(strategies) > 1 and not strategies.keys() <= set(_TORCHRUN_STRATEGIES):
        raise _distribution_error(
            f"two distributions at once: {' and '.join(strategies)}", "keep one of them"
        )
    if "mpi" in strategies:
        return _mpi(strategies["mpi"])
    return DataParallel() if strategies else None


def _enabled(options: Any) -> bool:
    """Return whether a strategy, or one of the libraries in it, is enabled."""
    if not isinstance(options, Mapping):
        return bool(options)
    if "enabled" in options:
        return bool(options["enabled"])
    return any(isinstance(inner, Mapping) and inner.get("enabled") for inner in options.values())


def _reject_unknown(strategies: Mapping[str, Any]) -> None:
    known = (*_TORCHRUN_STRATEGIES, "mpi", *TOOLKIT_STRATEGIES)
    for name in strategies:
        if name not in known:
            raise _distribution_error(f"{name!r} is not a distribution", choice_fix(name, known))


def _distribution_error(what: str, fix: str) -> SpecError:
    return SpecError([Problem(what=what, where="distribution", fix=fix)])


def _mpi(options: Mapping[str, Any]) -> Mpi:
    """Split SDK v2's options for mpirun; turn its --NCCL_DEBUG into an exported variable."""
    words = shlex.split(options.get("custom_mpi_options", ""))
    while "--NCCL_DEBUG" in words[:-1]:
        place = words.index("--NCCL_DEBUG")
        words[place : place + 2] = ["-x", f"NCCL_DEBUG={words[place + 1]}"]
    return Mpi(processes_per_host=options.get("processes_per_host"), custom_options=tuple(words))

"""Refuse objects of the script where data hosts prepare the data."""

from __future__ import annotations

from launcher.data.given_code import GivenDataset
from launcher.data.sources import declared_engine
from launcher.data.torch_samplers import TorchSampler
from launcher.errors import DataError


def check_sendable(given: GivenDataset, sampler: TorchSampler) -> None:
    """Raise DataError for objects of this process where data hosts prepare the data."""
    if declared_engine() is None:
        return
    problems = []
    if given.is_instance:
        problems.append(
            f"the {type(given.instance).__name__} given exists only in the script's process: make "
            "it in a function of a module beside the script, and name that, as in "
            'DataLoader("pipeline:train_set", ...)'
        )
    if sampler.drawn is not None:
        what, module = sampler.drawn.what, given.reference.partition(":")[0]
        home = "pipeline" if given.is_instance else module
        problems.append(
            f"the {type(sampler.drawn.sampler).__name__} given as {what} exists only in the "
            "script's process: make it in a function of the dataset's module that takes "
            f'(length, epoch, seed), and name that, as in {what}="{home}:order"'
        )
    if problems:
        raise DataError(
            f"data hosts prepare this job's data, and {'; '.join(problems)} (docs/data-loader.md, "
            "Objects where data hosts prepare the data)"
        )

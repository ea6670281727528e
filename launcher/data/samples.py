"""From a reference like "pipeline:train_set" to samples, on whichever host does the work."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import Any

from launcher.data import seeding, structure
from launcher.data.plan import Plan, StreamSpec
from launcher.errors import DataError, SampleError


class Datasets(dict[str, Any]):
    """Datasets by their references, each built when it is first asked for."""

    def __missing__(self, reference: str) -> Any:
        self[reference] = build_dataset(reference)
        return self[reference]


def build_dataset(reference: str) -> Any:
    """Call the function that a reference names and check what it returns.

    The reference is the job's own ("module:function", listed in the job document). Raises
    DataError with the traceback when the user's code raises.
    """
    module, _, function = reference.partition(":")
    if not module or not function:
        raise DataError(
            f"{reference!r} is not a dataset reference; write 'module:function', the name of a "
            "module beside your script and of a function in it that returns a Dataset"
        )
    try:
        dataset = getattr(importlib.import_module(module), function)()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise DataError(
            f"the dataset {reference} could not be built: {error!r}\n{traceback.format_exc()}"
        ) from error
    if not is_iterable(dataset) and not (
        hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    ):
        raise DataError(
            f"{reference} returned a {type(dataset).__name__}; a dataset has __getitem__ and "
            "__len__, or, if it can only be read from its start, __iter__"
        )
    return dataset


def is_iterable(dataset: Any) -> bool:
    """Whether a dataset can only be read from its start, as torch's IterableDataset."""
    torch_data = sys.modules.get("torch.utils.data")
    if torch_data and isinstance(dataset, torch_data.IterableDataset):
        return True  # which has a __getitem__ that raises
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


def load_batch(dataset: Any, plan: Plan, step: int) -> Any:
    """The collated batch of a step; the same bytes wherever and whenever it is computed.

    Leaves the process's random states alone. Raises SampleError when the dataset raises.
    """
    samples = []
    with seeding.states_kept():
        for position, index in zip(plan.positions(step), plan.sample_ids(step), strict=True):
            seed = seeding.sample_seed(plan.spec.seed, plan.epoch, position)
            samples.append(_load(dataset, index, seed, plan.spec.dataset))
    return make_batch(samples, plan.spec, _named(plan, step))


def make_batch(samples: list[Any], spec: StreamSpec, words: str) -> Any:
    """The batch of some samples; words: which they are, for errors."""
    try:
        return structure.collate(samples)
    except DataError as error:
        raise DataError(f"{spec.dataset}: {error} ({words})") from error
    except Exception as error:  # samples that are not alike fail in many ways
        raise DataError(
            f"{spec.dataset}: samples that do not make a batch: {error!r} "
            f"({words})\n{traceback.format_exc()}"
        ) from error


def _named(plan: Plan, step: int) -> str:
    ids = plan.sample_ids(step)
    return f"samples {ids[:8]}{'...' if len(ids) > 8 else ''}"


def _load(dataset: Any, index: int, seed: int, reference: str) -> Any:
    had_torch = "torch" in sys.modules
    try:
        seeding.seed_everything(seed)
        sample = dataset[index]
        if not had_torch and "torch" in sys.modules:
            # The sample's own code has just imported torch, whose generator had no seed yet.
            seeding.seed_everything(seed)
            sample = dataset[index]
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise SampleError(
            f"{reference} raised {type(error).__name__} for sample {index}: {error}",
            index=index,
            remote_traceback=traceback.format_exc(),
        ) from error
    return sample

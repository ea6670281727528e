"""Read the dataset and the functions that a script gives the loader: names, classes, or objects.

Objects exist in the script's process alone, and are refused where data hosts prepare the data.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, GeneratorType
from typing import Any, TypeGuard

from launcher.data.batches import reference_to
from launcher.data.instance_code import describe_instance
from launcher.data.order import UNKNOWN, check_dataset, is_iterable, with_arguments
from launcher.data.sources import declared_engine
from launcher.data.torch_samplers import TorchSampler, read_sampler
from launcher.errors import DataError

#: Functions that the process that prepares the data calls, and nothing is compared with.
_CALLABLES = ("collate_fn", "worker_init_fn")


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenDataset:
    """A dataset as the script gave it. instance: None for one that has a reference."""

    reference: str
    instance: Any = None

    @property
    def name(self) -> str:
        """The stream's name: of an instance, with its arguments, as its reference has none."""
        if not self.is_instance:
            return self.reference
        return f"{self.reference.removesuffix(UNKNOWN)}({describe_instance(self.instance)})"

    @property
    def is_instance(self) -> bool:
        """True for an object that exists in this process only."""
        return self.instance is not None


def read_dataset(dataset: object, arguments: Mapping[str, object] | None) -> GivenDataset:
    """Return the reference to a dataset, or else the instance that was given.

    Raises DataError for wrong arguments, and for objects that are neither.
    """
    if isinstance(dataset, str):
        return GivenDataset(reference=with_arguments(dataset, arguments))
    if _has_name(dataset):
        _check_top_level(dataset, "dataset")
        return GivenDataset(reference=with_arguments(reference_to(dataset), arguments))
    kind = type(dataset)
    if arguments is not None:
        raise DataError(
            f"dataset_args are given beside an instance of {kind.__name__}, which has been made "
            f"already: write DataLoader({kind.__name__}, dataset_args={dict(arguments)!r})"
        )
    if isinstance(dataset, GeneratorType):
        name = dataset.gi_code.co_name
        raise DataError(
            f"the dataset is the generator {name}, which can be read only once: give the function "
            f"that returns it, DataLoader({'FUNCTION' if '<' in name else name})"
        )
    if callable(dataset) and not hasattr(dataset, "__getitem__") and not is_iterable(dataset):
        raise DataError(
            f"the dataset is a {kind.__name__}, which data hosts cannot find by its name: give a "
            "function or class at the top level of its module, and its arguments as "
            'dataset_args={"NAME": VALUE}'
        )
    check_dataset(dataset, "the dataset given is")
    return GivenDataset(reference=f"{reference_to(kind)}{UNKNOWN}", instance=dataset)


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenFunctions:
    """The functions of a stream as the script gave them.

    references: by the loader's argument. objects: those that exist in this process only.
    sampler: the meaning of an instance of torch's samplers.
    """

    references: Mapping[str, Any]
    objects: Mapping[str, Callable[[Any], Any]]
    sampler: TorchSampler


def read_functions(
    dataset: GivenDataset, functions: Mapping[str, object], *, collates: bool = True
) -> GivenFunctions:
    """Return the references to functions that are given by name or as objects.

    collates: whether samples make batches, on which torch's own collate_fn depends.

    Beside an instance of a dataset, a collate_fn or worker_init_fn may be any callable. Raises
    DataError for what no host could find.
    """
    references: dict[str, Any] = {}
    objects: dict[str, Callable[[Any], Any]] = {}
    sampler = TorchSampler()
    home = "pipeline" if dataset.is_instance else dataset.reference.partition(":")[0]
    for what, function in functions.items():
        if what == "collate_fn" and _is_torchs_default(function, collates):
            references[what] = None  # ours does the same
        elif dataset.is_instance and what in _CALLABLES and callable(function):
            references[what] = _name_of(function)
            objects[what] = function
        elif "sampler" in what and not (
            function is None or _has_name(function) or isinstance(function, str)
        ):
            sampler = read_sampler(function, what, home)
            references[what] = sampler.drawn and sampler.drawn.name
        else:
            references[what] = _reference(function, what, home, dataset.is_instance)
    return GivenFunctions(references=references, objects=objects, sampler=sampler)


def whole(what: str, number: Any) -> int:
    """Return a number of any integer type, numpy's included, as an int; raises DataError."""
    try:
        given = operator.index(number)
    except TypeError as error:
        raise DataError(f"{what} is {number!r}; it must be a whole number") from error
    if given < 0:
        raise DataError(f"{what} is {given}; it must be 0 or more")
    return given


def _reference(function: object, what: str, home: str, is_instance: bool) -> object:
    """Return a function's reference; other objects are returned as they are."""
    if isinstance(function, str):
        module, _, name = function.partition(":")
        if module and name and module != home and not is_instance:
            raise DataError(not_in_home(function, what, home))
        return function
    if not _has_name(function):
        return function
    _check_top_level(function, what)
    name = function.__name__
    if getattr(sys.modules.get(home), name, None) is function:
        return f"{home}:{name}"  # defined or imported there
    return reference_to(function)


def _has_name(code: object) -> TypeGuard[type | FunctionType]:
    return isinstance(code, type | FunctionType)


def _is_torchs_default(function: object, collates: bool) -> bool:
    torch_data = sys.modules.get("torch.utils.data")
    name = "default_collate" if collates else "default_convert"
    return torch_data is not None and function is getattr(torch_data, name)


def _name_of(function: object) -> str:
    if _has_name(function):
        return reference_to(function)
    return f"{reference_to(type(function))}{UNKNOWN}"


def not_in_home(function: str, what: str, home: str) -> str:
    """Describe a function in another module than the dataset's, and the fix."""
    return (
        f"the {what} {function!r} is not in the dataset's module {home}: import it there and write "
        f"'{home}:{function.partition(':')[2]}'"
    )


def _check_top_level(code: type | FunctionType, what: str) -> None:
    """Raise DataError for a function or class that other processes cannot find by its name."""
    if "<" not in code.__qualname__:
        return
    kind = "lambda" if "<lambda>" in code.__qualname__ else f"local {type(code).__name__}"
    raise DataError(
        f"the {what} {code.__qualname__} of {code.__module__}{_line(code)} is a {kind}, which data "
        "hosts cannot find by its name: define it at the top level of its module, with def or class"
    )


def _line(code: type | FunctionType) -> str:
    """Return the file and line of a function, in brackets; of a class, nothing."""
    if not isinstance(code, FunctionType):
        return ""
    return f" ({Path(code.__code__.co_filename).name}:{code.__code__.co_firstlineno})"


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

"""Read the dataset and the functions that a script gives the loader: names, classes, or objects.

Objects exist in the script's process alone, and are refused where data hosts prepare the data.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import FunctionType, GeneratorType
from typing import Any, TypeGuard

from launcher.data.batches import reference_to
from launcher.data.order import (
    UNKNOWN,
    ChannelPath,
    channel_of,
    check_dataset,
    is_iterable,
    with_arguments,
    wrong_values,
)
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


#: Characters of one argument; longer ones are data rather than settings.
_VALUE_LIMIT = 100
_UNKNOWN = "..."
_SCALARS = (bool, int, float, str, type(None))


def describe_instance(instance: object) -> str:
    """Return text that differs where instances of one class differ in arguments or length.

    >>> describe_instance([1, 2, 3])
    'len=3'
    """
    values = _constructor_values(instance) or {}
    described = {name: _described(value) for name, value in values.items()}
    if isinstance(length := _length(instance), int):
        described["len"] = str(length)
    return _written(described)


def _written(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}={code}" for name, code in arguments.items())


def _constructor_values(instance: object) -> dict[str, object] | None:
    """Return the arguments that are not the default, by name, from the attributes of that name."""
    if (parameters := _parameters(type(instance))) is None:
        return None
    found, attributes = {}, getattr(instance, "__dict__", {})
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return None
        value = attributes.get(name, attributes.get(f"_{name}", parameter.empty))
        if parameter.default is not parameter.empty and _is_same(value, parameter.default):
            continue
        found[name] = value
    return found


def _parameters(kind: type) -> list[inspect.Parameter] | None:
    """Return the parameters of a class; **kwargs stand for the next constructor's above it."""
    try:
        own = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):  # some classes of C modules have none
        return None
    named = {each.name: each for each in own if each.kind is not each.VAR_KEYWORD}
    above = [base for base in kind.__mro__[1:] if "__init__" in vars(base)]
    if len(named) < len(own) and "__init__" in vars(kind) and above and above[0] is not object:
        for each in _parameters(above[0]) or ():
            if each.kind is not each.VAR_POSITIONAL:
                named.setdefault(each.name, each)
    return list(named.values())


def _is_same(value: object, default: object) -> bool:
    if value is default or type(value) is not type(default):
        return value is default
    if isinstance(value, list | tuple | dict | set) and len(value) != len(default):  # type: ignore[arg-type] # of the same type
        return False  # values may be large: a list of images
    return repr(value) == repr(default)


def _code(value: object) -> str:
    if isinstance(value, PurePath):
        value = str(value)
    place = channel_of(value) if isinstance(value, str) else value
    if isinstance(place, ChannelPath):
        return f"launcher.data.{place!r}"
    if value is inspect.Parameter.empty or wrong_values(value):
        return _UNKNOWN
    return code if len(code := repr(value)) <= _VALUE_LIMIT else _UNKNOWN


def _described(value: object) -> str:
    """Return the code of a value; of long text and of many numbers, a digest of both ends.

    Containers of other objects may be large, and are left out.
    """
    if not isinstance(value, str | list | tuple):
        return _UNKNOWN if isinstance(value, dict) else _code(value)
    ends = (value[:_VALUE_LIMIT], value[-_VALUE_LIMIT:])
    if not all(isinstance(each, _SCALARS) for end in ends for each in end):
        return _UNKNOWN
    if len(value) <= _VALUE_LIMIT:
        return _code(value)
    return f"...{hashlib.blake2b(repr((len(value), ends)).encode(), digest_size=4).hexdigest()}"


def _length(instance: object) -> object:
    try:
        return len(instance)  # type: ignore[arg-type] # it may have none
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        return None

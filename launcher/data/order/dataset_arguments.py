"""Arguments of datasets, and the references that contain them: "pipeline:train_set(size=224)".

A reference is the identity of a dataset in messages, resume points and errors, so the arguments are
part of it. They are Python literals: nothing but data can be read from them.
"""

from __future__ import annotations

import ast
import keyword
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import NoReturn

from launcher.errors import DataError
from launcher.runtime import paths_here
from launcher.shared import MlPaths

Arguments = Mapping[str, object]

#: Characters of a reference. It is part of each epoch's definition and of each resume point.
_REFERENCE_LIMIT = 65_536
#: Arguments of an instance, which are unknown.
UNKNOWN = "(...)"


@dataclass(frozen=True)
class ChannelPath(os.PathLike[str]):
    """A path in a channel, resolved on the host that uses it: by open(), str() or Path()."""

    name: str
    path: str = ""

    def __post_init__(self) -> None:
        for part in (self.name, self.path):
            is_path = isinstance(part, str) and not PurePosixPath(part).is_absolute()
            if not is_path or ".." in PurePosixPath(part).parts:
                raise DataError(
                    f"channel({self.name!r}, {self.path!r}): give the channel's name and a path "
                    "below it, both as str and without '..'"
                )

    def __repr__(self) -> str:
        given = (self.name, self.path) if self.path else (self.name,)
        return f"channel({', '.join(map(repr, given))})"

    def __str__(self) -> str:
        return os.fspath(self)

    def __truediv__(self, below: str | PurePath) -> ChannelPath:
        """Return a path below this one, also for the hosts that prepare the data."""
        if not isinstance(below, str | PurePath):
            return NotImplemented
        inside = PurePosixPath(self.path, *PurePath(below).parts)
        return ChannelPath(self.name, "" if inside == PurePosixPath() else str(inside))

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError, with how to write what a path of pathlib has."""
        if name.startswith("_") or not hasattr(Path, name):
            raise AttributeError(f"a path in a channel has no {name!r}")
        raise AttributeError(
            f"{self!r} is of each host that uses it: write Path({self!r}).{name} for this one's"
        )

    def __fspath__(self) -> str:
        """Return the path on this host; raises DataError if it does not have the channel."""
        channels = paths_here().channels
        if not (channels / self.name).is_dir():
            there = sorted(each.name for each in channels.iterdir()) if channels.is_dir() else []
            raise DataError(
                f"this host has no channel {self.name!r}, only {there}: give the job the channel, "
                "or add the group that prepares data to its instance_groups"
            )
        return str(channels / self.name / self.path)


@dataclass(frozen=True)
class Epoch:
    """Stands for the number of the epoch among the arguments of a dataset.

    The dataset is then made anew for each epoch.
    """

    def __repr__(self) -> str:
        return "EPOCH"


EPOCH = Epoch()
"""The number of the epoch as an argument: `dataset_args={"epoch": EPOCH}`.

The dataset is then made anew for each epoch.
"""


def channel(name: str, path: str = "") -> ChannelPath:
    """Return a path in a channel, to be resolved on the host that prepares the data.

    >>> channel("digits", "train")
    channel('digits', 'train')
    """
    return ChannelPath(name, path)


# References --------------------------------------------------------------------------------


def with_arguments(reference: str, arguments: Arguments | None) -> str:
    """Return a reference with a dataset's arguments; raises one DataError for all wrong ones."""
    if arguments is None:
        return reference
    if problems := list(_wrong_arguments(arguments)):
        raise DataError("\n".join(problems))
    if not arguments:
        return reference
    given = ", ".join(f"{name}={arguments[name]!r}" for name in sorted(arguments))
    if len(given) > _REFERENCE_LIMIT:
        raise DataError(
            f"dataset_args of {reference} have {len(given)} characters, more than "
            f"{_REFERENCE_LIMIT}: write them to a file in a channel, and give the dataset its path"
        )
    return f"{reference}({given})"


def without_arguments(reference: str) -> str:
    """Return the "module:function" of a reference.

    >>> without_arguments("pipeline:train_set(size=224)")
    'pipeline:train_set'
    """
    return reference.partition("(")[0]


def arguments_of(reference: str) -> dict[str, object]:
    """Return the arguments in a reference; raises DataError if it is damaged.

    >>> arguments_of("pipeline:train_set(root=channel('digits'), size=224)")
    {'root': channel('digits'), 'size': 224}
    """
    function, found, rest = reference.partition("(")
    if not found:
        return {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        match call:
            case ast.Call(func=ast.Name(id="f"), args=[], keywords=given):
                return {_name_of(each): _read(each.value) for each in given}
        raise ValueError("not a call with named arguments")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise DataError(f"damaged arguments of the dataset {function}: {error}") from error


def resolve_argument(value: object, epoch: int) -> object:
    """Return a value with the paths of channels on this host, as str, and the epoch's number."""
    match value:
        case ChannelPath():
            return os.fspath(value)
        case Epoch():
            return epoch
        case dict():
            return {name: resolve_argument(each, epoch) for name, each in value.items()}
        case list() | tuple():
            return type(value)(resolve_argument(each, epoch) for each in value)
    return value


def follows_epoch(reference: str) -> bool:
    """Return whether a dataset is made anew for each epoch.

    >>> follows_epoch("pipeline:train_set(epoch=EPOCH)")
    True
    """
    return "EPOCH" in reference and _has_epoch(list(arguments_of(reference).values()))


def _has_epoch(value: object) -> bool:
    match value:
        case dict():
            return any(map(_has_epoch, value.values()))
        case list() | tuple():
            return any(map(_has_epoch, value))
    return isinstance(value, Epoch)


def _name_of(argument: ast.keyword) -> str:
    if argument.arg is None:
        raise ValueError("** among the arguments")
    return argument.arg


def _read(node: ast.expr) -> object:
    match node:
        case ast.Name(id="EPOCH"):
            return EPOCH
        case ast.Call(func=ast.Name(id="channel"), args=parts, keywords=[]):
            return ChannelPath(*map(ast.literal_eval, parts))
        case ast.List(elts=parts):
            return [_read(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_read(part) for part in parts)
        case ast.Dict(keys=keys, values=values):
            return {
                ast.literal_eval(key): _read(value)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
    return ast.literal_eval(node)


def channel_of(value: str) -> ChannelPath | None:
    """Return the channel path of a path on this host, None for a path elsewhere."""
    channels, path = _normal(paths_here().channels), _normal(value)
    if not path.is_relative_to(channels) or path == channels:
        return None
    name, *rest = path.relative_to(channels).parts
    return ChannelPath(name, "/".join(rest))


def _normal(path: str | Path) -> Path:
    return Path(os.path.normpath(path))


# Wrong arguments ---------------------------------------------------------------------------


def _wrong_arguments(arguments: Arguments) -> Iterator[str]:
    if not isinstance(arguments, Mapping):
        yield (
            f"dataset_args is a {type(arguments).__name__}; write a dict of the names and values "
            'with which the dataset is made: dataset_args={"size": 224}'
        )
        return
    for name, value in arguments.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            yield f"dataset_args has the key {name!r}; its keys are names of arguments"
        else:
            yield from _wrong_value(f"dataset_args[{name!r}]", value, paths_here())


def _wrong_value(where: str, value: object, paths: MlPaths) -> Iterator[str]:
    """Yield a message for each part of a value that cannot be sent to data hosts."""
    match value:
        case None | ChannelPath() | Epoch():
            return
        case str() if type(value) is str:
            yield from _path_of_this_host(where, value, paths)
        case list() | tuple() if type(value) in (list, tuple):
            for index, each in enumerate(value):
                yield from _wrong_value(f"{where}[{index}]", each, paths)
        case dict() if type(value) is dict:
            for key, each in value.items():
                if type(key) is not str:
                    yield f"{where} has the key {key!r}; the keys are str, as in JSON"
                yield from _wrong_value(f"{where}[{key!r}]", each, paths)
        case PurePath():
            yield f"{where} is a {type(value).__name__}; write a str, {str(value)!r}"
            yield from _path_of_this_host(where, str(value), paths)
        case _ if type(value) not in (bool, int, float):
            yield (
                f"{where} has the type {type(value).__name__}; JSON values and channel(...) "
                "travel to data hosts: make the object in the dataset's own code, of such values"
            )
        case float() if not math.isfinite(value):
            yield f"{where} is {value}; JSON has finite numbers only: write None, or a str"


def _path_of_this_host(where: str, value: str, paths: MlPaths) -> Iterator[str]:
    path = _normal(value)
    if not path.is_relative_to(_normal(paths.root)):
        return
    if (place := channel_of(value)) is not None:
        mend = f"launcher.data.{place!r}"
    elif path.is_relative_to(code := _normal(paths.code)):
        mend = f"{str(path.relative_to(code))!r}, since data hosts, too, run in the code's folder"
    else:
        mend = 'launcher.data.channel("NAME", "PATH"), with the file in a channel'
    yield f"{where} is {value!r}, a path of this host, where no data host looks: write {mend}"


def wrong_values(value: object) -> list[str]:
    """Return the problems with a value as an argument."""
    return list(_wrong_value("the value", value, paths_here()))

"""Refuse objects of the script where data hosts prepare the data, with the lines to write instead.

The lines work as they are printed; what no attribute of an object shows is described in words.
"""

from __future__ import annotations

import contextlib
import inspect
import symtable
from collections.abc import Collection, Mapping
from dataclasses import fields
from itertools import count
from pathlib import PurePath
from textwrap import indent

from launcher.data.dataset_code import DatasetCode, Hidden, file_of, is_importable
from launcher.data.given_code import GivenDataset
from launcher.data.instance_code import VALUE_LIMIT, channel_path, shown_arguments
from launcher.data.order import FUNCTIONS, UNKNOWN, ChannelPath, StreamSpec, wrong_values
from launcher.data.sources import declared_engine
from launcher.data.torch_samplers import DrawnOrders, TorchSampler
from launcher.errors import DataError
from launcher.runtime import paths_here

_NOT_SHOWN = inspect.Parameter.empty


def check_sendable(given: GivenDataset, sampler: TorchSampler, spec: StreamSpec) -> None:
    """Raise DataError for objects of this process where data hosts prepare the data."""
    drawn = sampler.drawn
    if not (given.is_instance or drawn) or declared_engine() is None:
        return
    problems = [_instance_refusal(given, spec)] if given.is_instance else []
    if drawn is not None:
        problems.append(_sampler_refusal(drawn, given))
    raise DataError("\n".join(problems))


def _instance_refusal(given: GivenDataset, spec: StreamSpec) -> str:
    """Return the error for a dataset object where data hosts prepare the data: what to write."""
    kind = type(given.instance)
    return (
        f"data hosts prepare this job's data, and the {kind.__name__} given exists only in the "
        f"script's process; {_class_and_arguments(given, spec) or _function(given, spec)}"
    )


def _class_and_arguments(given: GivenDataset, spec: StreamSpec) -> str | None:
    """Return the call with the class of the job and its arguments; None if these are no values."""
    kind, functions = type(given.instance), _functions(spec)
    home, _, name = given.reference.removesuffix(UNKNOWN).partition(":")
    arguments = shown_arguments(given.instance)
    if not is_of_the_job(kind) or arguments is None:
        return None
    if any(not reference.startswith(f"{home}:") for reference in functions.values()):
        return None
    values = {each: value for each, (value, _) in arguments.items() if value is not _NOT_SHOWN}
    uncertain = [each for each in arguments if each not in values]
    has_defaults = all(arguments[each][1] for each in uncertain)
    if not has_defaults or not all(map(_is_short, values.values())):
        return None
    begin = "give its class and arguments, with which data hosts make it"
    if not is_importable(kind):
        moved = " and ".join([name, *(each.partition(":")[2] for each in functions.values())])
        home = "pipeline"
        begin = (
            "the script has no main guard, so data hosts cannot import it: move "
            f"{moved} into a module beside it, pipeline.py, and write"
        )
    call = _call(f"{home}:{name}", spec, given, home, values)
    return f"{begin}:{call}{_uncertain(uncertain)}{_unnamed(spec, home)}"


def _function(given: GivenDataset, spec: StreamSpec) -> str:
    """Return the function that makes the dataset on data hosts, and the call that names it."""
    kind = type(given.instance)
    is_in_module = is_of_the_job(kind) and kind.__module__ != "__main__"
    code = DatasetCode(home=kind.__module__ if is_in_module else "pipeline")
    file = f"{code.home.replace('.', '/')}.py"
    function = _new_name("train_set", code.home)
    try:
        expression = code.of(given.instance)
        for reference in _functions(spec).values():
            code.import_function(reference)
    except Hidden:
        names = [each.partition(":")[2] for each in _functions(spec).values()]
        also = f", where {' and '.join(names)} must be, too" if names else ""
        call = _call(f"{code.home}:{function}", spec, given, code.home)
        return (
            f"move the lines that make it, with all that they use, into a function {function}() "
            f"that returns it, in a module beside the script, {file}{also}; and write in the "
            f"script:{call}{_unnamed(spec, code.home)}"
        )
    call = _call(f"{code.home}:{function}", spec, given, code.home, code.paths)
    return (
        f"write in a module beside the script, {file}:\n"
        f"{indent(code.lines(function, expression), '    ')}and in the script:{call}"
        f"{_uncertain(code.uncertain)}{_unnamed(spec, code.home)}"
    )


def _functions(spec: StreamSpec) -> dict[str, str]:
    """Return the references to functions of a stream, by the loader's argument."""
    found = {name: getattr(spec, name) for name in FUNCTIONS}
    return {
        name: str(reference)
        for name, reference in found.items()
        if reference is not None and not str(reference).endswith(UNKNOWN)
    }


def _is_short(value: object) -> bool:
    """Return whether a value can be written among the dataset_args."""
    if isinstance(value, PurePath):
        return False  # JSON has none
    is_value = channel_path(value) is not None or not wrong_values(value)
    return is_value and len(repr(value)) <= VALUE_LIMIT


def _call(
    reference: str,
    spec: StreamSpec,
    given: GivenDataset,
    home: str,
    values: Mapping[str, object] | None = None,
) -> str:
    """Return the lines of the script that make its loader, on lines of their own."""
    shown = {name: channel_path(value) or value for name, value in (values or {}).items()}
    written = ", ".join(f'"{name}": {value!r}' for name, value in shown.items())
    arguments = f", dataset_args={{{written}}}" if written else ""
    lines = [f'DataLoader("{reference}"{arguments}{_options(spec, given.name, home)})']
    if any(isinstance(value, ChannelPath) for value in shown.values()):
        lines.insert(0, "from launcher.data import channel")
    return "".join(f"\n    {line}" for line in lines)


def _uncertain(arguments: list[str]) -> str:
    if not arguments:
        return ""
    return f"\nNo attribute shows its {' and '.join(arguments)}: add what the script gives for that"


def _unnamed(spec: StreamSpec, home: str) -> str:
    """Describe the functions that are objects without a name."""
    unnamed = [name for name in FUNCTIONS if str(getattr(spec, name)).endswith(UNKNOWN)]
    drawn = [name for name in unnamed if "sampler" not in name]  # those have a line of their own
    return "".join(
        f'\nDefine the {name}, too, as a function of that module, and add {name}="{home}:NAME"'
        for name in drawn
    )


def _new_name(name: str, home: str) -> str:
    """Return the name, with a number if the module uses that name at its top level already."""
    file = paths_here().code / f"{home.replace('.', '/')}.py"
    used: Collection[str] = ()
    if file.is_file():
        with contextlib.suppress(SyntaxError, ValueError):  # what it has is not known then
            used = symtable.symtable(file.read_text(), str(file), "exec").get_identifiers()
    names = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(each for each in names if each not in used)


def _sampler_refusal(drawn: DrawnOrders, given: GivenDataset) -> str:
    """Return the error for a sampler object where data hosts prepare the data: what to write."""
    kind = type(given.instance)
    is_moved = given.is_instance and not (is_of_the_job(kind) and is_importable(kind))
    home = "pipeline" if is_moved else given.reference.partition(":")[0]
    code, file = DatasetCode(home=home), f"{home.replace('.', '/')}.py"
    function = _new_name("order", home)
    try:
        order = code.lines(function, code.of(drawn.sampler), "length", "epoch", "seed")
        written = f"write in the dataset's module, {file}:\n{indent(order, '    ')}and"
    except Hidden:
        written = (
            f"write in the dataset's module, {file}, a function {function}(length, epoch, seed) "
            "that makes it as the script does and returns it; and"
        )
    return (
        f"data hosts prepare this job's data, and the {type(drawn.sampler).__name__} given as "
        f"{drawn.what} exists only in the script's process; {written} in the loader:\n"
        f'    {drawn.what}="{home}:{function}"'
    )


def _options(spec: StreamSpec, default_name: str, home: str) -> str:
    """Return the code of the loader's arguments that are not the default; functions are at home."""
    given = {
        field.name: getattr(spec, field.name)
        for field in fields(spec)
        if field.name not in ("name", "dataset") and getattr(spec, field.name) != field.default
    }
    given = {name: value for name, value in given.items() if not str(value).endswith(UNKNOWN)}
    for name in _functions(spec):
        given[name] = f"{home}:{given[name].partition(':')[2]}"
    if spec.name != default_name:
        given["name"] = spec.name
    return "".join(f", {name}={value!r}" for name, value in given.items())


def is_of_the_job(kind: type) -> bool:
    """Return whether a class is in the code that is sent with the job, found by its name."""
    file = file_of(kind)
    return (
        "<" not in kind.__qualname__ and file is not None and file.is_relative_to(paths_here().code)
    )

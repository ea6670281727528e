"""The datasets that a job's code names, found by reading it: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: What a dataset's name is the first argument of, or a keyword of.
_LOADER = "DataLoader"
_TASK_KEYWORDS = ("train_data", "validation_data")
#: What the loader's dataset_args may call, beside literals.
_CALLED, _NAMED = "channel", "EPOCH"
#: Arguments of the loader that name functions, and those that are numbers.
_FUNCTIONS = ("collate_fn", "sampler", "batch_sampler")
_NUMBERS = ("batch_size", "shards", "allow_pickle")


@dataclass(frozen=True, kw_only=True)
class NamedDataset:
    """A dataset that a job names.

    reference: with its arguments where these are literals. loader: the loader's batch_size and
    shards where they are literals, and its collate_fn, sampler and batch_sampler where it names
    them, as references. lacks_arguments: it has arguments that are not literals.
    """

    reference: str
    lacks_arguments: bool = False
    loader: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The reference without its arguments."""
        return self.reference.partition("(")[0]


def named_datasets(
    source: str, served: Sequence[str] = (), script: str | None = None
) -> list[NamedDataset]:
    """Return the datasets of a script, each once for every way in which it is read.

    served: the datasets that the job lists; others are left out, and those that the script does not
    name follow without arguments. script: the module of the script, whose own classes and functions
    are then datasets too.

    >>> source = 'loader = DataLoader("pipeline:train_set", 4, dataset_args={"size": 8})'
    >>> [(each.reference, each.loader) for each in named_datasets(source)]
    [('pipeline:train_set(size=8)', {'batch_size': 4})]
    """
    found: list[NamedDataset] = []
    for dataset in _datasets(source, served, script):
        if dataset not in found:
            found.append(dataset)
    if not served:
        return found
    listed = [each for each in found if each.name in served]
    named = {each.name for each in listed}
    return listed + [NamedDataset(reference=each) for each in served if each not in named]


def unnamed_datasets(source: str, script: str) -> list[int]:
    """Return the lines of Launcher's loaders whose dataset only the running script knows."""
    tree = _tree(source)
    names, packages = _names(tree, (), script), dict(_packages(tree))
    return [
        call.lineno
        for call in _calls(tree)
        if _is_loader(call)
        and packages.get(ast.unparse(call.func).partition(".")[0]) == "launcher"
        and not _reference(_dataset_argument(call), names)
    ]


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):  # the job says what is wrong
        return ast.Module(body=[], type_ignores=[])


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _names(tree: ast.Module, served: Sequence[str], script: str | None) -> dict[str, str]:
    """Return the references of names in a script: its own, those listed, and those it imports."""
    own = {
        node.name: f"{script}:{node.name}"
        for node in tree.body
        if script is not None and isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    listed = {each.partition(":")[2]: each for each in served}  # such as a class of the script
    imported = {
        each.asname or each.name: f"{node.module}:{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for each in node.names
    }
    return own | listed | imported


def _packages(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (name, package) of each name that a script imports; relative imports have none."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    package = each.name.partition(".")[0]
                    yield each.asname or package, package
            case ast.ImportFrom(module=str(module), names=names):
                package = "" if node.level else module.partition(".")[0]
                yield from ((each.asname or each.name, package) for each in names)


def _datasets(source: str, served: Sequence[str], script: str | None) -> Iterator[NamedDataset]:
    tree = _tree(source)
    names = _names(tree, served, script)
    for call in _calls(tree):
        yield from _datasets_of(call, names)


def _is_loader(call: ast.Call) -> bool:
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return called == _LOADER


def _dataset_argument(call: ast.Call) -> ast.expr | None:
    named = (each.value for each in call.keywords if each.arg == "dataset")
    return call.args[0] if call.args else next(named, None)


def _datasets_of(call: ast.Call, imported: Mapping[str, str]) -> Iterator[NamedDataset]:
    keywords = {each.arg: each.value for each in call.keywords}
    for name in _TASK_KEYWORDS:
        if reference := _reference(keywords.get(name), {}):
            yield NamedDataset(reference=reference)
    if not _is_loader(call):
        return
    if reference := _reference(_dataset_argument(call), imported):
        given = keywords.get("dataset_args")
        arguments = _arguments(given)
        keywords |= {"batch_size": call.args[1]} if len(call.args) > 1 else {}
        yield NamedDataset(
            reference=reference + arguments,
            lacks_arguments=given is not None and not arguments,
            loader=dict(_loader(keywords, imported)),
        )


def _loader(
    keywords: Mapping[str | None, ast.expr], imported: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a loader that can be read without running the script."""
    for name in _FUNCTIONS:
        if reference := _reference(keywords.get(name), imported):
            yield name, reference
    for name in _NUMBERS:
        match keywords.get(name):
            case ast.Constant(value=int(number)):
                yield name, number
            case ast.Constant(value=None) if name == "batch_size":
                yield name, None


def _reference(node: ast.expr | None, imported: Mapping[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str(text)) if text.count(":") == 1:
            return text
        case ast.Name(id=name):
            return imported.get(name)
    return None


def _arguments(node: ast.expr | None) -> str:
    """Return "(name=value, ...)" in the order of names; "" for none, or those of the script."""
    match node:
        case ast.Dict(keys=keys, values=values) if all(map(_is_data, values)):
            names = [key.value for key in keys if isinstance(key, ast.Constant)]
            if names and len(names) == len(keys):
                pairs = sorted(zip(map(str, names), map(ast.unparse, values), strict=True))
                return f"({', '.join(f'{name}={value}' for name, value in pairs)})"
    return ""


def _is_data(node: ast.expr) -> bool:
    """Return whether a value can be read without running the script."""
    match node:
        case ast.Name(id=name):
            return name == _NAMED
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            return name == _CALLED and all(map(_is_data, parts))
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return all(map(_is_data, parts))
        case ast.Dict(keys=keys, values=parts):
            return None not in keys and all(map(_is_data, parts))
    return isinstance(node, ast.Constant | ast.UnaryOp)

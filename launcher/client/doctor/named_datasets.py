"""The datasets that a job's code names, found by reading it: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

#: What a dataset's name is the first argument of, or a keyword of.
_LOADER = "DataLoader"
_TASK_KEYWORDS = ("train_data", "validation_data")
#: What the loader's dataset_args may call, beside literals.
_CALLED, _NAMED = "channel", "EPOCH"


def named_datasets(source: str, served: Sequence[str] = ()) -> list[str]:
    """Return references to the datasets of a script, with their arguments where these are literals.

    served: the datasets that the job lists; others are left out, and those that the script does not
    name follow without arguments.

    >>> named_datasets('loader = DataLoader("pipeline:train_set", dataset_args={"size": 8})')
    ['pipeline:train_set(size=8)']
    """
    found = dict.fromkeys(_references(source))
    if not served:
        return list(found)
    listed = [each for each in found if each.partition("(")[0] in served]
    named = {each.partition("(")[0] for each in listed}
    return listed + [each for each in served if each not in named]


def _references(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the job says what is wrong
        return
    imported = {
        each.asname or each.name: f"{node.module}:{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _references_of(node, imported)


def _references_of(call: ast.Call, imported: Mapping[str, str]) -> Iterator[str]:
    keywords = {each.arg: each.value for each in call.keywords}
    for name in _TASK_KEYWORDS:
        if reference := _reference(keywords.get(name), {}):
            yield reference
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called != _LOADER:
        return
    reference = _reference(call.args[0] if call.args else keywords.get("dataset"), imported)
    if reference:
        yield reference + _arguments(keywords.get("dataset_args"))


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

"""Names in launcher/: one class and one file for each, and docstrings that open plainly."""

import ast
import functools
from collections import defaultdict
from pathlib import Path

import launcher

PACKAGE = Path(launcher.__file__).parent

SHARED_FILE_NAMES = {
    "__init__": "Python names them",
    "__main__": "Python names them: `python -m` of a package",
    "base": "each set of kinds may have its base class, which nobody reads apart from its folder",
    "registry": "each set of kinds may list them, in its own folder",
}

# A docstring that opens so is half a sentence: "Of the first stage.", "Whether it has ended."
RELATIVE_WORDS = {"Of", "That", "Whether", "What", "How", "Where", "Who"}


@functools.cache
def modules():
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def repeated(places_of):
    return {name: places for name, places in places_of.items() if len(places) > 1}


def where(path):
    return path.relative_to(PACKAGE).as_posix()


def shared_class_names():
    places_of = defaultdict(list)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places_of[node.name].append(f"{where(path)}:{node.lineno}")
    return repeated(places_of)


def shared_file_names():
    places_of = defaultdict(list)
    for path in modules():
        if path.stem not in SHARED_FILE_NAMES:
            places_of[path.stem].append(where(path))
    return repeated(places_of)


def relative_openings():
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{where(path)}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and (docstring := ast.get_docstring(node))
        and docstring.split()[0].strip(",.:;") in RELATIVE_WORDS
    ]


def signatures_with_any():
    """`Any` switches type checks off: below one function in ten, with Mapping[str, Any] counted."""
    functions = [
        node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    with_any = [node for node in functions if "Any" in signature_names(node)]
    return [] if len(with_any) < len(functions) / 10 else [node.name for node in with_any]


def signature_names(function):
    annotations = [
        node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)
    ] + [function.returns]
    return {
        node.id
        for annotation in annotations
        if annotation is not None
        for node in ast.walk(annotation)
        if isinstance(node, ast.Name)
    }


def test_the_package_keeps_its_rules_of_names():
    """One test, since parsing the package takes longer than all the checks."""
    checks = (shared_class_names, shared_file_names, relative_openings, signatures_with_any)
    assert {check.__name__: check() for check in checks} == {
        "shared_class_names": {},
        "shared_file_names": {},
        "relative_openings": [],
        "signatures_with_any": [],
    }

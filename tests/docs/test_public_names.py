"""Every name that the docs teach is public, and each public name has one place."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from snippets import ROOT, snippets

import launcher
from launcher import LauncherError, errors


def taught() -> Iterator[tuple[str, str]]:
    """Yield the module and name of each import from Launcher in the docs and the examples."""
    texts = [snippet.text for snippet in snippets()]
    texts += [path.read_text() for path in sorted((ROOT / "examples").rglob("*.py"))]
    for text in texts:
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.ImportFrom) and (part.module or "").split(".")[0] == "launcher":
                yield from ((str(part.module), alias.name) for alias in part.names)


def is_module(module: str, name: str) -> bool:
    """Return whether the name is a module of a package: `from launcher import parallel`."""
    place = Path(launcher.__file__).parents[1].joinpath(*module.split("."), name)
    return place.is_dir() or place.with_suffix(".py").exists()


TAUGHT = sorted({pair for pair in taught() if not is_module(*pair)})


@pytest.mark.parametrize(("module", "name"), TAUGHT, ids=[f"{m}.{n}" for m, n in TAUGHT])
def test_a_name_that_the_docs_teach_is_public(module: str, name: str) -> None:
    home = import_module(module)
    assert list(home.__all__).count(name) == 1
    assert hasattr(home, name)


def test_the_docs_teach_one_place_for_each_name() -> None:
    names = [name for _, name in TAUGHT]
    assert sorted(set(names)) == sorted(names)


def test_eight_errors_are_public_and_all_others_are_found_by_name() -> None:
    tree = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, LauncherError)
    }
    assert len(set(tree) & set(launcher.__all__)) == 8
    assert all(getattr(launcher, name) is kind for name, kind in tree.items())
    assert len(launcher.__all__) <= 60


def test_each_public_name_is_listed_once_and_imported_once() -> None:
    assert len(set(launcher.__all__)) == len(launcher.__all__)
    tree = ast.parse(Path(launcher.__file__).read_text())
    door = next(part for part in tree.body if isinstance(part, ast.If))
    imports = [part for part in door.body if isinstance(part, ast.ImportFrom)]
    assert sorted(alias.name for part in imports for alias in part.names) == sorted(
        launcher.__all__
    )

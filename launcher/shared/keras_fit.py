"""Scripts that call Keras's `fit`, which in Keras 3 fails under TensorFlow's multi-host strategies.

Source: https://github.com/keras-team/keras/issues/20585
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

#: Set to 1, it makes `tf.keras` the package tf_keras, which is Keras 2; `keras` stays what it is.
_LEGACY_VARIABLE = "TF_USE_LEGACY_KERAS"
_BACKEND_VARIABLE = "KERAS_BACKEND"
#: The ways out, of which each works; docs/guides/tensorflow.md has an example of each.
WAYS_OUT = (
    "write the training loop yourself (Keras 3's models work in it), or use Keras 2 (tf_keras, or "
    f"{_LEGACY_VARIABLE}=1 for tf.keras), or train Keras 3 on JAX (distribution: jax)"
)
_METHODS = ("fit", "evaluate")
_KERAS, _TF_KERAS, _KERAS_2, _TENSORFLOW = "keras", "tf.keras", "tf_keras", "tensorflow"

#: Returns the text of a file, by its path in the source folder; None if there is no such file.
Read = Callable[[str], str | None]


@dataclass(frozen=True, kw_only=True)
class FitCall:
    """A call of `fit` or `evaluate`: its file in the source folder, and its line."""

    file: str
    line: int


def find_fit(script: str, read: Read, variables: Mapping[str, str]) -> FitCall | None:
    """Return the first `fit` or `evaluate` of Keras 3 in a script and the modules that it imports.

    script: its path in the source folder. variables: the job's.

    None if there is none, and if the variables or the script choose Keras 2 or another backend than
    TensorFlow.

    >>> find_fit("train.py", {"train.py": "import keras; keras.Model().fit(data)"}.get, {})
    FitCall(file='train.py', line=1)
    >>> find_fit("train.py", {"train.py": "import tf_keras; tf_keras.Model().fit(data)"}.get, {})
    """
    program = dict(_program(script, read))
    packages = {package for tree in program.values() for package in _packages(tree)}
    texts = {text for tree in program.values() for text in _texts(tree)}
    if not _has_keras_3(packages, texts, variables) or _has_other_backend(texts, variables):
        return None
    for file, tree in program.items():
        lines = list(_calls(tree)) if _has_tensorflow(tree) else []
        if lines:
            return FitCall(file=file, line=min(lines))
    return None


def _has_keras_3(packages: set[str], texts: set[str], variables: Mapping[str, str]) -> bool:
    is_set = variables.get(_LEGACY_VARIABLE, "0").lower() in ("1", "true")
    is_legacy = is_set or _LEGACY_VARIABLE in texts
    of_keras_3 = {_KERAS} if is_legacy else {_KERAS, _TF_KERAS}
    return _KERAS_2 not in packages and bool(packages & of_keras_3)


def _has_other_backend(texts: set[str], variables: Mapping[str, str]) -> bool:
    """Return whether Keras 3 computes by JAX or torch; a script sets that before it is imported."""
    if _BACKEND_VARIABLE in texts:
        return _TENSORFLOW not in texts
    return variables.get(_BACKEND_VARIABLE, _TENSORFLOW) != _TENSORFLOW


# The program: the script and the modules of its folder -------------------------------------------


def _program(script: str, read: Read) -> Iterator[tuple[str, ast.Module]]:
    """Yield the script and each module of the source folder that it imports, with its file."""
    files, seen = [script], {script}
    for file in files:
        tree = _parse(read(file))
        if tree is None:
            continue
        yield file, tree
        for name in _imported(tree, PurePosixPath(file)):
            # Modules beside the script have their name alone.
            for folder in (PurePosixPath(), PurePosixPath(script).parent):
                path = folder.joinpath(*name.split("."))
                found = {str(path.with_suffix(".py")), str(path / "__init__.py")} - seen
                files += sorted(found)
                seen |= found


def _parse(source: str | None) -> ast.Module | None:
    try:
        return None if source is None else ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # running it says what is wrong


def _imported(tree: ast.Module, file: PurePosixPath) -> Iterator[str]:
    """Yield the names of modules that an import runs, and of what may be one: from a import b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(file.parts[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (package, node.module)))
            yield from filter(None, (module, *(f"{module}.{alias.name}" for alias in node.names)))


# A module ----------------------------------------------------------------------------------------


def _packages(tree: ast.Module) -> Iterator[str]:
    """Yield the top of each imported module, and "tf.keras" for the one in tensorflow."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="keras"):
                yield _TF_KERAS
            case ast.Import(names=names):
                yield from _tops(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from _tops(f"{module}.{alias.name}" for alias in names)


def _tops(modules: Iterable[str]) -> Iterator[str]:
    for module in modules:
        top, _, rest = module.partition(".")
        yield top
        if top == _TENSORFLOW and rest.split(".")[0] == "keras":
            yield _TF_KERAS


def _has_tensorflow(tree: ast.Module) -> bool:
    """Return whether a module's `fit` may be Keras's: another's may be scikit-learn's."""
    return not {_KERAS, _TF_KERAS, _TENSORFLOW}.isdisjoint(_packages(tree))


def _texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in a module, among which are the variables that it sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _calls(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=method)) if method in _METHODS:
                yield node.lineno

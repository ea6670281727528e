"""Scripts that call Keras's `fit`, which in Keras 3 fails under TensorFlow's multi-host strategies.

Source: https://github.com/keras-team/keras/issues/20585
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

#: Set to 1, it makes `tf.keras` the package tf_keras, which is Keras 2.
LEGACY_VARIABLE = "TF_USE_LEGACY_KERAS"
#: The ways out, of which each works; docs/guides/tensorflow.md has an example of each.
WAYS_OUT = (
    "write the training loop yourself (Keras 3's models work in it), or use Keras 2 (tf_keras, or "
    f"{LEGACY_VARIABLE}=1 for tf.keras), or train Keras 3 on JAX (distribution: jax)"
)
_METHODS = ("fit", "evaluate")


def keras_fit_line(source: str) -> int | None:
    """Return the line of the first `fit` or `evaluate` in a script of Keras 3, or None.

    None too if the script chooses Keras 2, or another backend than TensorFlow, itself.

    >>> keras_fit_line("import keras; keras.Sequential().fit(data)")
    1
    >>> keras_fit_line("import tf_keras as keras; keras.Sequential().fit(data)") is None
    True
    """
    if LEGACY_VARIABLE in source or "KERAS_BACKEND" in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # running it says what is wrong
    if not _uses_keras(tree):
        return None
    return min(_calls(tree), default=None)


def _uses_keras(tree: ast.Module) -> bool:
    modules = set(_modules(tree))
    has_attribute = any(
        isinstance(node, ast.Attribute) and node.attr == "keras" for node in ast.walk(tree)
    )
    return "tf_keras" not in modules and ("keras" in modules or has_attribute)


def _modules(tree: ast.Module) -> Iterator[str]:
    """Yield the top of each imported module, and "keras" for the one in tensorflow."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            yield "keras" if first == "tensorflow" and rest.split(".")[0] == "keras" else first


def _calls(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=method)) if method in _METHODS:
                yield node.lineno

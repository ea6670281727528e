"""The notice in a failure of Keras 3's `fit`, which fails under TensorFlow's multi-host strategies.

Source: https://github.com/keras-team/keras/issues/20585
"""

from __future__ import annotations

import dataclasses
import re

from launcher.runtime.end.failure_file import Failure

#: The ways out, of which each works; docs/reference/tensorflow.md has an example of each.
_WAYS_OUT = (
    "write the training loop yourself (Keras 3's models work in it), or use Keras 2 (tf_keras, or "
    "TF_USE_LEGACY_KERAS=1 for tf.keras), or train Keras 3 on JAX (distribution: jax)"
)
#: A folder of Keras 3 in a traceback; those of Keras 2 are tf_keras/src and keras/engine.
_KERAS_3 = "/keras/src/"
_FIT = re.compile(r"\.(fit|evaluate)\(")


def with_ways_out(failure: Failure) -> Failure:
    """Return a failure inside Keras 3's `fit` or `evaluate`, with the ways out of it."""
    if failure.is_secondary:
        return failure
    return dataclasses.replace(failure, cause=failure.cause + hint_of_fit(failure.detail))


def hint_of_fit(printed: str) -> str:
    """Return the ways out if a traceback is of Keras 3's `fit` or `evaluate`, and "" otherwise."""
    if _KERAS_3 not in printed or _FIT.search(printed) is None:
        return ""
    return f" (Keras 3's fit fails under this strategy: {_WAYS_OUT})"

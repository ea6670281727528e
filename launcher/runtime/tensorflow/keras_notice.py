"""Notices of a host on Keras 3, whose `fit` fails under TensorFlow's multi-host strategies."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from launcher.runtime.event_log import emit
from launcher.runtime.failure_file import Failure
from launcher.shared.keras_fit import LEGACY_VARIABLE, WAYS_OUT, keras_fit_line

#: A folder of Keras 3 in a traceback; those of Keras 2 are tf_keras/src and keras/engine.
_KERAS_3 = "/keras/src/"
_FIT = re.compile(r"\.(fit|evaluate)\(")


def warn_of_fit(script: Path, variables: Mapping[str, str]) -> None:
    """Log, before the script starts, that its `fit` will fail with the Keras of this host."""
    if not _has_keras_3(variables):
        return
    line = keras_fit_line(script.read_text(errors="replace"))
    if line is not None:
        why = "Keras 3's fit and evaluate fail under tf.distribute's strategies for several hosts"
        emit("keras_fit_fails", script=script.name, line=line, why=why, fix=WAYS_OUT)


def with_ways_out(failure: Failure) -> Failure:
    """Return a failure inside Keras 3's `fit` or `evaluate`, with the ways out of it."""
    is_of_fit = _KERAS_3 in failure.detail and _FIT.search(failure.detail) is not None
    if failure.is_secondary or not is_of_fit:
        return failure
    hint = f"{failure.cause} (Keras 3's fit fails under this strategy: {WAYS_OUT})"
    return dataclasses.replace(failure, cause=hint)


def _has_keras_3(variables: Mapping[str, str]) -> bool:
    if variables.get(LEGACY_VARIABLE, "0").lower() in ("1", "true"):
        return False
    try:
        return int(version("keras").partition(".")[0]) >= 3
    except (PackageNotFoundError, ValueError):
        return False

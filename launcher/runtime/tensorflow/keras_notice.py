"""Notices of a host on Keras 3, whose `fit` fails under TensorFlow's multi-host strategies."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from launcher.runtime.event_log import emit
from launcher.runtime.failure_file import Failure
from launcher.shared import WAYS_OUT, find_fit

#: A folder of Keras 3 in a traceback; those of Keras 2 are tf_keras/src and keras/engine.
_KERAS_3 = "/keras/src/"
_FIT = re.compile(r"\.(fit|evaluate)\(")


def warn_of_fit(code: Path, script: str, variables: Mapping[str, str]) -> None:
    """Log, before the script starts, that its `fit` will fail with the Keras of this host.

    code: the folder of the user's code. script: the script's path in it.
    """
    if not _has_keras_3():
        return

    def read(path: str) -> str | None:
        file = code / path
        return file.read_text(errors="replace") if file.is_file() else None

    call = find_fit(script, read, variables)
    if call is not None:
        why = "Keras 3's fit and evaluate fail under tf.distribute's strategies for several hosts"
        emit("keras_fit_fails", script=call.file, line=call.line, why=why, fix=WAYS_OUT)


def with_ways_out(failure: Failure) -> Failure:
    """Return a failure inside Keras 3's `fit` or `evaluate`, with the ways out of it."""
    if failure.is_secondary:
        return failure
    return dataclasses.replace(failure, cause=failure.cause + hint_of_fit(failure.detail))


def hint_of_fit(printed: str) -> str:
    """Return the ways out if a traceback is of Keras 3's `fit` or `evaluate`, and "" otherwise."""
    if _KERAS_3 not in printed or _FIT.search(printed) is None:
        return ""
    return f" (Keras 3's fit fails under this strategy: {WAYS_OUT})"


def _has_keras_3() -> bool:
    try:
        return int(version("keras").partition(".")[0]) >= 3
    except (PackageNotFoundError, ValueError):
        return False

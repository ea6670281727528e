"""From the strings of hyperparameters.json to typed values, and on to a script's arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Keys that SageMaker's own SDKs add; they configure its toolkit and never reach a script.
TOOLKIT_PREFIX = "sagemaker_"


def decode(raw: Mapping[str, str], types: Mapping[str, str]) -> dict[str, Any]:
    """The values as the user gave them.

    Values are JSON inside a string, as SDK v2 sends them. A value that was declared a string but
    is no JSON string (someone edited the request) is taken literally; so is anything unparsable.
    """
    return {key: _decode_one(text, types.get(key)) for key, text in raw.items()}


def _decode_one(text: str, declared: str | None) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if declared == "str" and not isinstance(value, str):
        return text
    if declared == "float" and type(value) is int:
        return float(value)
    return value


def for_script(values: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters that belong to the user's script."""
    return {key: value for key, value in values.items() if not key.startswith(TOOLKIT_PREFIX)}


def as_arguments(values: Mapping[str, Any]) -> list[str]:
    """Command-line arguments by the rules of sagemaker-training 5.1 (mapping.to_cmd_args).

    Sorted by name; a one-letter name takes one dash; a dict becomes k=v,k=v; all else is str().

    >>> as_arguments({"lr": 0.1, "d": {"a": 1}, "flag": True})
    ['-d', 'a=1', '--flag', 'True', '--lr', '0.1']
    """
    arguments: list[str] = []
    for name in sorted(values):
        value = values[name]
        text = (
            ",".join(f"{key}={item}" for key, item in value.items())
            if isinstance(value, dict)
            else str(value)
        )
        arguments += [f"-{name}" if len(name) == 1 else f"--{name}", text]
    return arguments

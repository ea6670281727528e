"""Decodes the strings of hyperparameters.json into typed values and formats script arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from launcher.shared import TOOLKIT_NAMES, is_of_toolkit

#: The toolkit's parameters that it does not pass on to a framework.
_KEPT = TOOLKIT_NAMES | {
    "sagemaker_program",
    "sagemaker_submit_directory",
    "sagemaker_enable_cloudwatch_metrics",
    "sagemaker_region",
    "sagemaker_container_log_level",
    "sagemaker_job_name",
    "sagemaker_s3_output",
}


def decode(raw: Mapping[str, str], types: Mapping[str, str]) -> dict[str, Any]:
    """Return the values as the user gave them.

    Values are JSON inside a string, as SDK v2 sends them. A value that was declared as a string but
    is not a JSON string (someone edited the request) is taken literally; so is anything that cannot
    be parsed.
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


def for_script(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the hyperparameters that belong to the user's script."""
    return {key: value for key, value in values.items() if not is_of_toolkit(key)}


def for_framework(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the toolkit's parameters that it passes on to a framework."""
    return {key: value for key, value in values.items() if is_of_toolkit(key) and key not in _KEPT}


def as_arguments(values: Mapping[str, object]) -> list[str]:
    """Format command-line arguments by the rules of sagemaker-training 5.1 (mapping.to_cmd_args).

    Arguments are sorted by name. A one-letter name takes one dash. A dict becomes k=v,k=v, sorted
    by key. None becomes an empty text. Everything else is str().

    >>> as_arguments({"lr": 0.1, "d": {"a": 1}, "flag": True})
    ['-d', 'a=1', '--flag', 'True', '--lr', '0.1']
    """
    arguments: list[str] = []
    for name in sorted(values):
        arguments += [f"-{name}" if len(name) == 1 else f"--{name}", _as_argument(values[name])]
    return arguments


def _as_argument(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return "" if value is None else str(value)

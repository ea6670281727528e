"""Fixes for what job files of other tools make people write, such as 10m for seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from launcher.shared import did_you_mean, shown

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
#: 18 digits are longer than any calendar, and int() refuses thousands of them.
_LENGTH = re.compile(rf"(\d{{1,18}})([{''.join(_SECONDS)}])")


#: Arguments of SDK v2, and an old one, that Launcher does not accept, with the alternatives.
NOT_TAKEN = {
    "capacity_retry": "write retry: {on: [out_of_capacity], attempts: 10, backoff: 300}",
    "git_config": "clone the repository (git clone --branch BRANCH REPO), and give its folder as "
    "source_dir",
    "compiler_config": "AWS's training compiler is at its end; use torch.compile in the script",
    "training_recipe": "recipes are SageMaker HyperPod's; give the script and its hyperparameters",
    "recipe_overrides": "recipes are SageMaker HyperPod's; give the script and its hyperparameters",
}
#: Words for a field of a job that are too far from its name to be similar.
_OTHER_WORDS = {
    "args": "hyperparameters",
    "arguments": "hyperparameters",
    "channels": "inputs",
    "code": "source_dir",
    "count": "instance_count",
    "data": "inputs",
    "env": "environment",
    "environ": "environment",
    "env_vars": "environment",
    "groups": "instance_groups",
    "image": "image_uri",
    "name": "instance_group_name",
    "nodes": "instance_count",
    "params": "hyperparameters",
    "script": "entry_point",
    "spot": "use_spot_instances",
    "timeout": "max_run",
    "type": "instance_type",
}
#: Groups to write out in a suggestion.
_MOST_NAMED = 5


def seconds_of(text: str) -> int | None:
    """Return the seconds of a length of time; None for other texts.

    >>> [seconds_of(text) for text in ("90s", "10m", "4w", "10")]
    [90, 600, 2419200, None]
    """
    match = _LENGTH.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


def hint_for_name(name: str, known: Iterable[str]) -> str:
    """Return what follows the refusal of an argument or attribute; "" if nothing is known."""
    if name in NOT_TAKEN:
        return f": {NOT_TAKEN[name]}"
    near = did_you_mean(name, known)
    return f"; did you mean {near!r}?" if near else ""


def meant_field(word: str) -> str | None:
    """Return the field of a job that another word stands for; None if none is known."""
    return _OTHER_WORDS.get(word)


def as_hyperparameter(name: str, value: object) -> str | None:
    """Suggest where an argument of the script belongs; None if the value cannot be one."""
    if value is None or isinstance(value, Mapping | list):
        return None
    return f'if it is for the script, write "hyperparameters: {{{name}: {shown(value)}}}"'


def named_groups_as_list(value: object) -> str | None:
    """Suggest the list for groups that are written as a mapping by name; None for other values."""
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
        return None
    groups = [f"{{instance_group_name: {name}, ...}}" for name in list(value)[:_MOST_NAMED]]
    more = ["..."] if len(value) > _MOST_NAMED else []
    return f"write a list, each with its name: [{', '.join([*groups, *more])}]"


def duration_in_seconds(value: object) -> str | None:
    """Suggest the seconds of a duration such as 10m; None for other values.

    >>> duration_in_seconds("1 w")
    'write seconds: 604800'
    """
    seconds = seconds_of(value.strip().replace(" ", "", 1)) if isinstance(value, str) else None
    return None if seconds is None else f"write seconds: {shown(seconds)}"

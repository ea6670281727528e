"""Rules for TensorFlow's strategies: who is in TF_CONFIG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import groups_with_paths
from launcher.errors import Problem

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_EVALUATOR = "evaluator"


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find a group that would be an evaluator."""
    for path, group in groups_with_paths(spec):
        name = group.instance_group_name
        if group.command or _EVALUATOR not in re.findall(r"[a-z]+", name.lower()):
            continue
        yield Problem(
            path=path,
            about=(("distribution",),),
            what=f'group "{name}" would be an evaluator, which tf.distribute\'s strategies '
            "do not have",
            fix="give it a command that evaluates the checkpoints: "
            'command: ["python", "evaluate.py"]',
        )

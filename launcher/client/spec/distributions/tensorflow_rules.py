"""Rules for TensorFlow's strategies: who is in TF_CONFIG, and Keras 3, whose `fit` fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import groups_with_paths
from launcher.errors import FieldPath, Problem
from launcher.shared import WAYS_OUT, find_fit

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.rules.source_rules import SourceFiles

_EVALUATOR = "evaluator"
_ENTRY_POINT = ("entry_point",)
#: The first TensorFlow whose tf.keras is Keras 3.
_FIRST_WITH_KERAS_3 = (2, 16)


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


def find_problems_in(
    spec: JobSpec, files: SourceFiles, wrong: Set[FieldPath], title: str
) -> Iterator[Problem]:
    """Warn of a script that calls `fit`, itself or in a module of its folder.

    Keras itself is not imported, and may be another.

    title: the distribution's name. wrong: fields that other problems are about.
    """
    is_readable = spec.script.endswith(".py") and not wrong & {_ENTRY_POINT, ("source_dir",)}
    if not is_readable or spec.has_remote_source or not _may_have_keras_3(spec):
        return

    def read(path: str) -> str | None:
        return files.read_text(path) if files.exists(path) else None

    call = find_fit(spec.script, read, spec.environment)
    if call is not None:
        yield Problem(
            path=_ENTRY_POINT,
            about=(("environment",), ("framework_version",)),
            what=f"{call.file}, line {call.line}, calls Keras's fit or evaluate, which fails under "
            f"{title} with Keras 3",
            fix=WAYS_OUT,
            is_warning=True,
        )


def _may_have_keras_3(spec: JobSpec) -> bool:
    """Return false for a job whose TensorFlow is of the days of Keras 2."""
    version = re.match(r"(\d+)\.(\d+)", spec.framework_version or "")
    if spec.framework != "tensorflow" or version is None:
        return True
    return (int(version[1]), int(version[2])) >= _FIRST_WITH_KERAS_3

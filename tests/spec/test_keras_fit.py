"""Keras 3's `fit` fails under TensorFlow's strategies for several hosts: a check says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher import Jax, JobSpec, MultiWorkerMirrored, ParameterServer
from launcher.client.request.source_tree import SourceTree
from launcher.client.spec import Distribution, check
from launcher.shared.keras_fit import keras_fit_line

FIT = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.fit(data)\n"


def warnings(folder: Path, distribution: Distribution, script: str = FIT, **fields: object) -> str:
    (folder / "train.py").write_text(script)
    spec = JobSpec(
        entry_point="train.py",
        source_dir=str(folder),
        instance_type="local",
        instance_count=2,
        distribution=distribution,
    ).replace(**fields)
    return "\n".join(check(spec, SourceTree(spec)))


@pytest.mark.parametrize("distribution", [MultiWorkerMirrored(), ParameterServer()], ids=str)
def test_a_fit_is_warned_of_with_the_three_ways(tmp_path: Path, distribution: Distribution) -> None:
    said = warnings(tmp_path, distribution)
    assert "train.py, line 3, calls Keras's fit or evaluate, which fails under" in said
    assert "write the training loop yourself" in said
    assert "TF_USE_LEGACY_KERAS=1" in said
    assert "distribution: jax" in said


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": Jax()},
        {"environment": {"TF_USE_LEGACY_KERAS": "1"}},
        {"framework": "tensorflow", "framework_version": "2.14.1"},
    ],
    ids=str,
)
def test_a_job_that_has_keras_2_or_jax_is_not_warned(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    fields = {"distribution": MultiWorkerMirrored(), **fields}
    assert "Keras" not in warnings(tmp_path, **fields)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (FIT, 3),
        ("from tensorflow import keras\nkeras.Sequential().fit(data)", 2),
        ("from tensorflow.keras import Model\nModel().evaluate(data)", 2),
        ("import keras\nmodel(batch)", None),
        ("import tf_keras\ntf_keras.Model().fit(data)", None),
        ("from sklearn.svm import SVC\nSVC().fit(data)", None),
        ('import os\nos.environ["TF_USE_LEGACY_KERAS"] = "1"\n' + FIT, None),
        ('import os\nos.environ["KERAS_BACKEND"] = "jax"\nimport keras\nkeras.Model().fit()', None),
        ("this is no Python", None),
    ],
)
def test_the_line_of_the_call(script: str, line: int | None) -> None:
    assert keras_fit_line(script) == line

"""Keras 3's `fit` fails under TensorFlow's strategies for several hosts: a check says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher import Jax, JobSpec, MultiWorkerMirrored, ParameterServer
from launcher.client.request import SourceTree
from launcher.client.spec import Distribution, Toolkit, check
from launcher.shared import find_fit

FIT = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.fit(data)\n"
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}


def warnings(
    folder: Path, distribution: Distribution, files: dict[str, str] | None = None, **fields: object
) -> str:
    for name, text in (files or {"train.py": FIT}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    spec = JobSpec(
        entry_point="train.py",
        source_dir=str(folder),
        instance_type="local",
        instance_count=2,
        distribution=distribution,
    ).replace(**fields)
    return "\n".join(check(spec, SourceTree(spec)))


@pytest.mark.parametrize(
    "distribution",
    [
        MultiWorkerMirrored(),
        ParameterServer(),
        Toolkit(strategies={"multi_worker_mirrored_strategy": {"enabled": True}}),
        Toolkit(strategies={"parameter_server": {"enabled": True}}),
    ],
    ids=["mirrored", "servers", "mirrored by the toolkit", "servers by the toolkit"],
)
def test_a_fit_is_warned_of_with_the_three_ways(tmp_path: Path, distribution: Distribution) -> None:
    said = warnings(tmp_path, distribution)
    assert "train.py, line 3, calls Keras's fit or evaluate, which fails under" in said
    assert "write the training loop yourself" in said
    assert "TF_USE_LEGACY_KERAS=1" in said
    assert "distribution: jax" in said


def test_a_fit_in_a_module_beside_the_script_is_warned_of(tmp_path: Path) -> None:
    files = {"train.py": "from lib import model\nmodel.train()\n", "lib/model.py": FIT}
    said = warnings(tmp_path, MultiWorkerMirrored(), files)
    assert "lib/model.py, line 3, calls Keras's fit or evaluate" in said


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": Jax()},
        {
            "distribution": Toolkit(
                strategies={"smdistributed": {"dataparallel": {"enabled": True}}}
            )
        },
        {"environment": LEGACY},
        {"environment": {"KERAS_BACKEND": "jax"}},
        {"framework": "tensorflow", "framework_version": "2.14.1"},
    ],
    ids=str,
)
def test_a_job_that_has_keras_2_or_jax_is_not_warned(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    fields = {"distribution": MultiWorkerMirrored(), **fields}
    assert "Keras" not in warnings(tmp_path, **fields)


def found(files: dict[str, str], script: str = "train.py", **variables: str) -> str | None:
    call = find_fit(script, files.get, variables)
    return None if call is None else f"{call.file}:{call.line}"


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
        ('import os\nos.environ["KERAS_BACKEND"] = "tensorflow"\n' + FIT, 5),
        ("# neither KERAS_BACKEND nor TF_USE_LEGACY_KERAS is set\n" + FIT, 4),
        ("this is no Python", None),
    ],
)
def test_the_line_of_the_call(script: str, line: int | None) -> None:
    assert found({"train.py": script}) == (line and f"train.py:{line}")


def test_the_variable_for_keras_2_changes_that_of_tensorflow_alone() -> None:
    of_keras = {"train.py": "import keras\nkeras.Model().fit(data)\n"}
    assert found({"train.py": FIT}, **LEGACY) is None
    assert found(of_keras, **LEGACY) == "train.py:2"


#: A model in a module of its own; the script that imports it has TensorFlow for the strategy alone.
MODEL = "import keras\n\ndef make(): return keras.Model()\n"


@pytest.mark.parametrize(
    ("files", "call"),
    [
        ({"train.py": "import a.b", "a/b.py": FIT}, "a/b.py:3"),
        ({"train.py": "from a import b", "a/b.py": FIT}, "a/b.py:3"),
        ({"train.py": "import a", "a/__init__.py": "from . import b", "a/b.py": FIT}, "a/b.py:3"),
        ({"train.py": "import a", "a.py": "import train, b", "b.py": FIT}, "b.py:3"),
        ({"src/train.py": "import a", "src/a.py": FIT}, "src/a.py:3"),
        (
            {"train.py": "import model\nimport tensorflow\nmodel.make().fit()", "model.py": MODEL},
            "train.py:3",
        ),
        (
            {
                "train.py": "import model, svm",
                "model.py": MODEL,
                "svm.py": "import sklearn\nSVC().fit(x)",
            },
            None,
        ),
        ({"train.py": "import a", "a.py": FIT, "b.py": "import tf_keras"}, "a.py:3"),
        ({"train.py": "import a, b", "a.py": FIT, "b.py": "import tf_keras"}, None),
        ({"train.py": "import numpy", "other.py": FIT}, None),
    ],
    ids=[
        "dotted",
        "from a package",
        "relative",
        "in a circle",
        "beside the script",
        "a model of another module",
        "scikit-learn beside Keras",
        "Keras 2 that is not imported",
        "Keras 2 in another module",
        "not imported",
    ],
)
def test_modules_that_the_script_imports_are_part_of_it(
    files: dict[str, str], call: str | None
) -> None:
    assert found(files, script=next(iter(files))) == call

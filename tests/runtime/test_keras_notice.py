"""A failure of Keras 3's `fit` under TensorFlow's strategies names the ways around it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosts import Hosts

from launcher.shared import Launch

#: A package in Keras's place, by the names of its folders.
SCRIPT = "from {package}.src.trainer import Model\nmodel = Model()\nmodel.{method}()\n"
TRAINER = """
class Model:
    def fit(self):
        raise TypeError("PerReplica is no array")
    call = fit
"""


@pytest.mark.parametrize(
    ("launch", "package", "method", "is_named"),
    [
        (Launch.MULTI_WORKER_MIRRORED, "keras", "fit", True),
        (Launch.MULTI_WORKER_MIRRORED, "keras", "call", False),
        (Launch.MULTI_WORKER_MIRRORED, "tf_keras", "fit", False),
        (Launch.PYTHON, "keras", "fit", False),
    ],
    ids=["fit", "another method", "Keras 2", "no strategy"],
)
@pytest.mark.long
def test_a_failure_in_fit_of_keras_3_names_the_ways_out(
    make_hosts: Callable[..., Hosts], launch: str, package: str, method: str, is_named: bool
) -> None:
    script = SCRIPT.format(package=package, method=method)
    files = {"train.py": script, f"{package}/src/trainer.py": TRAINER}
    hosts = make_hosts(files, data=0, train=1, launch=launch)
    hosts.fail()
    reason = hosts["algo-1"].failure or ""
    assert "TypeError: PerReplica is no array" in reason
    assert ("or train Keras 3 on JAX (distribution: jax))" in reason) == is_named

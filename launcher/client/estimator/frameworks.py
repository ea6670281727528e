"""Estimators with framework-specific arguments: PyTorch and TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from launcher.client.estimator.estimator import Estimator
from launcher.client.spec.distribution import Distribution


class PyTorch(Estimator):
    """An Estimator with the argument order of SageMaker SDK v2's PyTorch; a `task` works too.

    framework_version, py_version: select the training image on AWS if image_uri is not given. A
    job on this machine runs in the Python that submits it.
    """

    def __init__(
        self,
        entry_point: str | os.PathLike[str] = "",
        framework_version: str | None = None,
        py_version: str | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(
            entry_point=entry_point,
            framework="pytorch",
            framework_version=framework_version,
            py_version=py_version,
            source_dir=source_dir,
            hyperparameters=hyperparameters,
            image_uri=image_uri,
            distribution=distribution,
            **arguments,
        )


class TensorFlow(Estimator):
    """An Estimator with the arguments of SageMaker SDK v2's TensorFlow.

    framework_version, py_version: as in PyTorch. model_dir: the hyperparameter of that name, which
    the script gets only if it is given.
    """

    def __init__(
        self,
        py_version: str | None = None,
        framework_version: str | None = None,
        model_dir: str | bool | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, Any] | None = None,
        *,
        entry_point: str | os.PathLike[str],
        hyperparameters: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        own = {"model_dir": model_dir} if model_dir else {}
        super().__init__(
            entry_point=entry_point,
            framework="tensorflow",
            framework_version=framework_version,
            py_version=py_version,
            hyperparameters={**(hyperparameters or {}), **own},
            image_uri=image_uri,
            distribution=distribution,
            **arguments,
        )

"""Estimators with framework-specific arguments: PyTorch and TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.client.estimator.estimator import Estimator
from launcher.client.estimator.job_keywords import FrameworkKeywords
from launcher.client.estimator.unknown_arguments import refusing_unknown
from launcher.client.spec.distributions.base import Distribution

if TYPE_CHECKING:
    from typing_extensions import Unpack  # mypy brings it; in `typing` from Python 3.11


class PyTorch(Estimator):
    """An Estimator with the argument order of SageMaker SDK v2's PyTorch; a `task` works too.

    framework_version, py_version: select the training image on AWS if image_uri is not given. A
    job on this machine runs in the Python that submits it.
    """

    @refusing_unknown(FrameworkKeywords)
    def __init__(
        self,
        entry_point: str | os.PathLike[str] = "",
        framework_version: str | None = None,
        py_version: str | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        **more: Unpack[FrameworkKeywords],
    ) -> None:
        super().__init__(
            image_uri,
            entry_point=entry_point,
            source_dir=source_dir,
            hyperparameters=hyperparameters,
            distribution=distribution,
            framework="pytorch",
            framework_version=framework_version,
            py_version=py_version,
            **more,
        )


class TensorFlow(Estimator):
    """An Estimator with the arguments of SageMaker SDK v2's TensorFlow.

    framework_version, py_version: as in PyTorch. model_dir: the hyperparameter of that name, which
    the script gets only if it is given.
    """

    @refusing_unknown(FrameworkKeywords)
    def __init__(
        self,
        py_version: str | None = None,
        framework_version: str | None = None,
        model_dir: str | bool | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        *,
        entry_point: str | os.PathLike[str],
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        **more: Unpack[FrameworkKeywords],
    ) -> None:
        added = {"model_dir": model_dir} if model_dir else {}
        super().__init__(
            image_uri,
            entry_point=entry_point,
            source_dir=source_dir,
            hyperparameters={**(hyperparameters or {}), **added},
            distribution=distribution,
            framework="tensorflow",
            framework_version=framework_version,
            py_version=py_version,
            **more,
        )

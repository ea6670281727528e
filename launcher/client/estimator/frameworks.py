"""Estimators with framework-specific arguments: PyTorch, TensorFlow and HuggingFace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from launcher.client.estimator.estimator import Estimator
from launcher.client.estimator.sdk_v2_types import PathLike
from launcher.client.estimator.spec_attributes import refusing_unknown
from launcher.client.spec import Distribution
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from typing_extensions import Unpack  # mypy brings it; in `typing` from Python 3.11

    from launcher.client.estimator.arguments import FrameworkKeywords

#: The fields that the class and its own arguments stand for.
_CHOSEN = ("framework", "framework_version", "transformers_version")


class PyTorch(Estimator):
    """An Estimator with the argument order of SageMaker SDK v2's PyTorch; a `task` works too.

    framework_version, py_version: select the training image on AWS if image_uri is not given. A
    job on this machine runs in the Python that submits it.
    """

    @refusing_unknown(without=_CHOSEN)
    def __init__(
        self,
        entry_point: PathLike = "",
        framework_version: str | None = None,
        py_version: str | None = None,
        source_dir: PathLike | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
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

    @refusing_unknown(without=_CHOSEN)
    def __init__(
        self,
        py_version: str | None = None,
        framework_version: str | None = None,
        model_dir: str | bool | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        *,
        entry_point: PathLike,
        source_dir: PathLike | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
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


def _refuse_unclear_image(
    transformers_version: str | None,
    tensorflow_version: str | None,
    pytorch_version: str | None,
    image_uri: str | None,
) -> None:
    """Raise SpecError for versions that name no image of Hugging Face's, as SDK v2 does."""
    if tensorflow_version and pytorch_version:
        what = "tensorflow_version and pytorch_version are both given"
        fix = "keep one of them: an image has one framework"
    elif bool(tensorflow_version or pytorch_version) is bool(transformers_version) or image_uri:
        return
    else:
        what = "an image has a transformers_version and a pytorch_version; one of them is missing"
        fix = 'write for example transformers_version="4.56", pytorch_version="2.8"'
    raise SpecError([Problem(what=what, where="transformers_version", fix=fix)])


class HuggingFace(Estimator):
    """An Estimator with the argument order of SageMaker SDK v2's HuggingFace.

    transformers_version: selects AWS's Hugging Face image if image_uri is not given, together with
    pytorch_version: that of PyTorch in the image, or tensorflow_version: that of TensorFlow.
    py_version: as in PyTorch.
    """

    @refusing_unknown(without=_CHOSEN)
    def __init__(
        self,
        py_version: str | None = None,
        entry_point: PathLike = "",
        transformers_version: str | None = None,
        tensorflow_version: str | None = None,
        pytorch_version: str | None = None,
        source_dir: PathLike | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        **more: Unpack[FrameworkKeywords],
    ) -> None:
        _refuse_unclear_image(transformers_version, tensorflow_version, pytorch_version, image_uri)
        super().__init__(
            image_uri,
            entry_point=entry_point,
            source_dir=source_dir,
            hyperparameters=hyperparameters,
            distribution=distribution,
            framework="tensorflow" if tensorflow_version else "pytorch",
            framework_version=tensorflow_version or pytorch_version,
            py_version=py_version,
            transformers_version=transformers_version,
            **more,
        )

    @property
    def pytorch_version(self) -> str | None:
        """The version of PyTorch; None with TensorFlow."""
        return self.spec.framework_version if self.spec.framework == "pytorch" else None

    @property
    def tensorflow_version(self) -> str | None:
        """The version of TensorFlow; None with PyTorch."""
        return self.spec.framework_version if self.spec.framework == "tensorflow" else None

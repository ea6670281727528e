"""botocore's model of SageMaker, and of CreateTrainingJob in it."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def service_model() -> Any:
    """The botocore.model.ServiceModel; read once, in a tenth of a second.

    Found through botocore's own loader, so models that a user added below ~/.aws/models count.
    """
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    description = create_loader().load_service_model("sagemaker", "service-2")
    return ServiceModel(description, "sagemaker")


@functools.cache
def input_shape() -> Any:
    """The shape (botocore.model.StructureShape) of a CreateTrainingJob request."""
    return service_model().operation_model("CreateTrainingJob").input_shape


def version() -> str:
    """The botocore whose model it is."""
    import botocore

    return str(botocore.__version__)

"""botocore's model of CreateTrainingJob."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def input_shape() -> Any:
    """The shape (botocore.model.StructureShape) of the request; read once, in a tenth of a second.

    Found through botocore's own loader, so models that a user added below ~/.aws/models count.
    """
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    description = create_loader().load_service_model("sagemaker", "service-2")
    return ServiceModel(description, "sagemaker").operation_model("CreateTrainingJob").input_shape


def version() -> str:
    """The botocore whose model it is."""
    import botocore

    return str(botocore.__version__)

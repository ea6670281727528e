"""botocore's models of SageMaker and of CreateTrainingJob."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.model import ServiceModel, StructureShape


@functools.cache
def service_model() -> ServiceModel:
    """Return the botocore.model.ServiceModel; it is read once, which takes 0.1 seconds.

    botocore's own loader finds it, so models that a user added below ~/.aws/models are used.
    """
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    with _no_garbage_collection():
        description = create_loader().load_service_model("sagemaker", "service-2")
    return ServiceModel(description, "sagemaker")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage in the block: there is none, and looking takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def input_shape() -> StructureShape:
    """Return the shape (botocore.model.StructureShape) of a CreateTrainingJob request."""
    return service_model().operation_model("CreateTrainingJob").input_shape


def version() -> str:
    """Return the version of botocore that provides the model."""
    import botocore

    return str(botocore.__version__)

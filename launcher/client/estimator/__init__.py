"""Estimators: jobs described with the SageMaker SDK's arguments.

The `sagemaker` package itself is never imported.
"""

from launcher.client.estimator.estimator import Estimator
from launcher.client.estimator.frameworks import HuggingFace, PyTorch, TensorFlow

__all__ = ["Estimator", "HuggingFace", "PyTorch", "TensorFlow"]

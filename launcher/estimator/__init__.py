"""Estimator, PyTorch and TensorFlow: jobs described with the SageMaker SDK's arguments.

The `sagemaker` package itself is never imported.
"""

from launcher.estimator.estimator import Estimator
from launcher.estimator.frameworks import PyTorch, TensorFlow

__all__ = ["Estimator", "PyTorch", "TensorFlow"]

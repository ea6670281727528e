"""Estimator, PyTorch and TensorFlow: jobs that are described as in SageMaker's SDK, and run.

The `sagemaker` package itself is never imported.
"""

from launcher.estimator.estimator import Estimator
from launcher.estimator.frameworks import PyTorch, TensorFlow

__all__ = ["Estimator", "PyTorch", "TensorFlow"]

"""Estimators: jobs described with the SageMaker SDK's arguments.

The `sagemaker` package itself is never imported.
"""

from launcher.client.estimator.estimator import Estimator
from launcher.client.estimator.frameworks import HuggingFace, PyTorch, TensorFlow
from launcher.client.estimator.training_job_analytics import TrainingJobAnalytics

__all__ = ["Estimator", "HuggingFace", "PyTorch", "TensorFlow", "TrainingJobAnalytics"]

"""Estimators: jobs described with the SageMaker SDK's arguments.

The `sagemaker` package itself is never imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.estimator.estimator import Estimator
    from launcher.client.estimator.frameworks import HuggingFace, PyTorch, TensorFlow
    from launcher.client.estimator.from_description import constructor_arguments
    from launcher.client.estimator.sdk_v2_types import as_groups, as_inputs, read_channel
    from launcher.client.estimator.training_job_analytics import TrainingJobAnalytics

__getattr__ = open_door(__name__)

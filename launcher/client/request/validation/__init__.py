"""Offline validation of a CreateTrainingJob request against SageMaker's limits.

The limits come from botocore's own service model, so they are as recent as the boto3 that sends
the request. The rules between fields, which no model has, are in `rules`. Nothing here calls AWS.
"""

from launcher.client.request.validation.request_check import find_violations
from launcher.client.request.validation.violations import Violation, aws_answer

__all__ = ["find_violations", "Violation", "aws_answer"]

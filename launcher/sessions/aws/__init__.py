"""AWS as a platform: the same request goes to SageMaker, its code to S3, its logs to CloudWatch."""

from __future__ import annotations

from launcher.sessions.aws.session import AwsSession

__all__ = ["AwsSession"]

"""AWS as a platform: requests go to SageMaker, code to S3, and logs come from CloudWatch."""

from __future__ import annotations

from launcher.client.sessions.aws.aws_session import AwsSession

__all__ = ["AwsSession"]

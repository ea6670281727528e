"""AWS as a platform: requests go to SageMaker, code to S3, and logs come from CloudWatch."""

"""What SageMaker refuses in a CreateTrainingJob request, known before anything is sent.

The limits are those of botocore's own model of the service, so that they are as new as the boto3
that will send the request; a field that the model does not have has no limits either. The rules
between fields, which no model has, are in `rules`. Nothing here asks AWS anything.
"""

from launcher.request.validation.answer import aws_answer
from launcher.request.validation.request import find_violations
from launcher.request.validation.violations import Violation

__all__ = ["find_violations", "Violation", "aws_answer"]

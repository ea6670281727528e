"""SDK v2's PyTorch, on an endpoint: prints the model's URI. Arguments: role, source folder."""

import sys

import sagemaker
from sagemaker.inputs import TrainingInput
from sagemaker.pytorch import PyTorch

role, source = sys.argv[1:]
estimator = PyTorch(
    entry_point="train.py",
    source_dir=source,
    role=role,
    framework_version="2.2.0",
    py_version="py310",
    instance_type="ml.c5.xlarge",
    instance_count=1,
    output_path="s3://training-bucket/output",
    code_location="s3://training-bucket/code",
    hyperparameters={"epochs": 3, "name": "abc"},
    sagemaker_session=sagemaker.Session(),
)
estimator.fit({"digits": TrainingInput("s3://training-bucket/digits/")}, job_name="by-sdk-v2")
print("MODEL", estimator.model_data)

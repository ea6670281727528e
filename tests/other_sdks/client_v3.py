"""SDK v3's ModelTrainer, on an endpoint. Arguments: role, source folder."""

import sys

from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, OutputDataConfig, SourceCode

role, source = sys.argv[1:]
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.2.0-cpu-py310",
    source_code=SourceCode(source_dir=source, entry_script="train.py"),
    compute=Compute(instance_type="ml.c5.xlarge", instance_count=1),
    output_data_config=OutputDataConfig(s3_output_path="s3://training-bucket/output"),
    hyperparameters={"epochs": 3, "name": "abc"},
    base_job_name="by-sdk-v3",
    role=role,
    sagemaker_session=Session(default_bucket="training-bucket"),
)
data = InputData(channel_name="digits", data_source="s3://training-bucket/digits/")
trainer.train(input_data_config=[data], wait=True, logs=True)

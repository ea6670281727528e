"""SDK v2 on an endpoint: runs a job, attaches to it, and prints what it finds as JSON.

Arguments: role, source folder.
"""

import json
import sys

import sagemaker
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.pytorch import PyTorch

NAME = "measured-by-sdk-v2"
role, source = sys.argv[1:]
session = sagemaker.Session(default_bucket="training-bucket")
estimator = PyTorch(
    entry_point="measure.py",
    source_dir=source,
    role=role,
    framework_version="2.2.0",
    py_version="py310",
    instance_type="ml.c5.xlarge",
    instance_count=1,
    hyperparameters={"epochs": 3, "name": "abc"},
    metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+);"}],
    tags=[{"Key": "team", "Value": "vision"}],
    sagemaker_session=session,
)
estimator.fit(job_name=NAME, wait=False)
attached = PyTorch.attach(NAME, sagemaker_session=session)
found = {
    "role": attached.role,
    "instance_type": attached.instance_type,
    "instance_count": attached.instance_count,
    "hyperparameters": attached.hyperparameters(),
    "output_kms_key": attached.output_kms_key,
    "tags": attached.tags,
    "model_data": attached.model_data,
    "status": attached.latest_training_job.describe()["TrainingJobStatus"],
    "metrics": attached.training_job_analytics.dataframe().to_dict("records"),
    "named": TrainingJobAnalytics(NAME, ["loss"], session).dataframe().to_dict("records"),
    "tuning_jobs": session.sagemaker_client.list_hyper_parameter_tuning_jobs()[
        "HyperParameterTuningJobSummaries"
    ],
}
attached.logs()
print("FOUND", json.dumps(found))

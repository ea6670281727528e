"""Starts the jobs of the ports as AWS's notebooks do; only the imports name the package.

python start_job.py ROLE BUCKET PORT DATA_HOSTS     with SDK v2
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    from sagemaker.inputs import TrainingInput
    from sagemaker.instance_group import InstanceGroup
    from sagemaker.pytorch import PyTorch
    from sagemaker.tensorflow import TensorFlow
else:
    from launcher import InstanceGroup, PyTorch, TensorFlow, TrainingInput

PORTS = Path(__file__).parent


def start(port, num_of_data_instances, training=None, job_name="port", **place):
    """Run a port's job to its end; the estimator. place: role, session, and where files go."""
    data_group = InstanceGroup("data_group", "ml.c5.xlarge", num_of_data_instances)
    dnn_group = InstanceGroup("dnn_group", "ml.g5.xlarge", 1)
    kwargs = dict(
        source_dir=str(PORTS / port),
        instance_groups=[data_group, dnn_group],
        volume_size=10,
        max_run=600,
        disable_profiler=True,
        **place,
    )
    if port == "hello":
        estimator = TensorFlow(
            entry_point="train.py",
            framework_version="2.9.2",
            py_version="py39",
            hyperparameters={"greeting": "hi"},
            **kwargs,
        )
    elif port == "loader":
        estimator = PyTorch(
            entry_point="launcher.py",
            framework_version="1.11.0",
            py_version="py38",
            debugger_hook_config=False,
            hyperparameters={
                "batch_size": 8,
                "grpc_workers": 2,
                "pin_memory": True,
                "iterations": 100,
            },
            **kwargs,
        )
    else:
        distribution = {
            "mpi": {
                "enabled": True,
                "processes_per_host": 2,
                "custom_mpi_options": "--NCCL_DEBUG WARN",
            },
            "instance_groups": [dnn_group],
        }
        estimator = TensorFlow(
            entry_point="launcher.py",
            framework_version="2.9.2",
            py_version="py39",
            distribution=distribution,
            hyperparameters={
                "epochs": 2,
                "steps_per_epoch": 5,
                "num_of_data_workers": 1,
                "batch_size": 16,
                "tf_data_mode": "service",
            },
            **kwargs,
        )
    inputs = None if training is None else TrainingInput(training, input_mode="FastFile")
    estimator.fit(inputs=inputs, job_name=job_name)
    return estimator


if __name__ == "__main__":
    role, bucket, port, data_hosts = sys.argv[1:]
    start(
        port,
        int(data_hosts),
        training=f"s3://{bucket}/training/" if port == "tf_data" else None,
        job_name=os.environ["JOB_NAME"],
        role=role,
        output_path=f"s3://{bucket}/output",
        code_location=f"s3://{bucket}/code",
    )

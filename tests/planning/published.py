"""AWS's two published experiments, as printed.

https://aws.amazon.com/blogs/machine-learning/improve-price-performance-of-your-model-training-using-amazon-sagemaker-heterogeneous-clusters/
"""

from __future__ import annotations

from dataclasses import dataclass

from calibration import ObservedStep


@dataclass(frozen=True)
class Experiment:
    """A job alone and with its data group: hosts, step times in ms, and what is printed of them."""

    name: str
    train: str
    data: str
    data_hosts: int
    alone_ms: float
    with_data_ms: float
    printed_alone_per_hour: float
    printed_with_data_per_hour: float
    printed_change: str
    observed: tuple[ObservedStep, ...]


TENSORFLOW = Experiment(
    name="TensorFlow, p4d and c5.18xlarge",
    train="ml.p4d.24xlarge",
    data="ml.c5.18xlarge",
    data_hosts=2,
    alone_ms=192,
    with_data_ms=86,
    printed_alone_per_hour=37.688,
    printed_with_data_per_hour=45.032,
    printed_change="-46%",
    observed=(
        ObservedStep(seconds=0.192, vcpus=96, gpu_busy=0.45, cpu_busy=1.0),
        ObservedStep(seconds=0.086, vcpus=240, gpu_busy=0.74, cpu_busy=0.8),
    ),
)
PYTORCH = Experiment(
    name="PyTorch, p3 and c5.9xlarge",
    train="ml.p3.2xlarge",
    data="ml.c5.9xlarge",
    data_hosts=1,
    alone_ms=1193,
    with_data_ms=184,
    printed_alone_per_hour=3.825,
    printed_with_data_per_hour=5.661,
    printed_change="-77%",
    observed=(
        ObservedStep(seconds=1.193, vcpus=8, cpu_busy=1.0),
        ObservedStep(seconds=0.184, vcpus=36),
    ),
)

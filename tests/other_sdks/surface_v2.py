"""Print as JSON the public surface of SDK v2 as it is installed: names by section."""

import importlib
import inspect
import json
import pkgutil
import warnings

import boto3
import sagemaker
from sagemaker.estimator import Estimator, EstimatorBase, _TrainingJob
from sagemaker.huggingface import HuggingFace
from sagemaker.pytorch import PyTorch
from sagemaker.tensorflow import TensorFlow

warnings.simplefilter("ignore")
session = sagemaker.Session(
    boto3.Session("AKIAEXAMPLE", "made-up", region_name="us-east-1"), default_bucket="my-bucket"
)
machines = {
    "role": "arn:aws:iam::111122223333:role/Training",
    "instance_type": "ml.g5.xlarge",
    "instance_count": 1,
    "sagemaker_session": session,
}
estimators = [
    Estimator("image:1", **machines),
    PyTorch("t.py", framework_version="2.2.0", py_version="py310", **machines),
    TensorFlow(entry_point="t.py", framework_version="2.14", py_version="py310", **machines),
    HuggingFace("py310", "t.py", "4.36", pytorch_version="2.1", **machines),
]


def public(names):
    return {name for name in names if not name.startswith("_")}


def members(names):
    """Public names without the constants, which are the package's own."""
    return {name for name in public(names) if not name.isupper()}


def estimator_classes():
    """Every estimator of the package, by the modules that can be imported here."""
    for module in pkgutil.walk_packages(sagemaker.__path__, "sagemaker."):
        if any(part in module.name for part in ("serve", "workflow", "remote_function")):
            continue
        try:
            importlib.import_module(module.name)
        except Exception:  # noqa: BLE001 (parts of the package need packages of their own)
            continue
    waiting, found = [EstimatorBase], set()
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in found:
                found.add(kind)
                waiting.append(kind)
    return {kind.__name__ for kind in found}


def top_level():
    """The classes and functions of `import sagemaker`."""
    return {
        name
        for name, value in vars(sagemaker).items()
        if inspect.isclass(value) or inspect.isfunction(value)
    }


print(
    json.dumps(
        {
            "estimator": sorted(
                set().union(*(members(dir(made)) | members(vars(made)) for made in estimators))
            ),
            "job": sorted(members(dir(_TrainingJob))),
            "session": sorted(members(dir(session))),
            "class": sorted(public(estimator_classes() | top_level())),
        }
    )
)

"""Facts that an image's name shows: its registry, and the Python of AWS's own images.

SageMaker takes images of Amazon ECR in the job's region. Launcher's part of a job needs Python
3.10; the Python of somebody else's image is not judged.
"""

from __future__ import annotations

import re

from launcher.client.spec import JobSpec
from launcher.errors import Problem

OLDEST_PYTHON = (3, 10)
#: A repository of Amazon ECR, in any of AWS's partitions.
_ECR = re.compile(r"[0-9]{12}\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.[a-z0-9.-]+/.+")
#: Repositories of AWS's frameworks, whose tags name their Python: "2.2.0-gpu-py310".
#: Source: https://github.com/aws/deep-learning-containers/blob/master/available_images.md, 2026-11
_FRAMEWORK = re.compile(
    r"(?:sagemaker-|huggingface-)?(?:pytorch|tensorflow|mxnet|chainer)(?:-[a-z]+)*"
    r"|smdistributed-modelparallel"
)
_PYTHON_TAG = re.compile(r"(?:^|-)py(?P<major>[23])(?P<minor>\d*)(?=-|$)")
#: The Python of a tag "py2" or "py3" without a minor version.
_UNNAMED_MINOR = {2: 7, 3: 6}
#: Images that say only "py3" or nothing: repository, versions, Python.
#: Source: docker/*/base/Dockerfile.cpu of github.com/aws/sagemaker-scikit-learn-container and
#: sagemaker-xgboost-container, 2026-11. Of XGBoost 1.7-1, builds with several versions exist.
_OTHERS = (
    ("sagemaker-scikit-learn", re.compile(r"(?:0\.|1\.0-).*"), (3, 7)),
    ("sagemaker-scikit-learn", re.compile(r"1\.2-.*"), (3, 9)),
    ("sagemaker-xgboost", re.compile(r"(?:0\.|1\.[0-5]-).*"), (3, 8)),
)


def image_python(image_uri: str) -> tuple[int, int] | None:
    """Return the Python version of an image, or None if its name does not show it."""
    repository, _, tag = image_uri.rpartition("/")[2].partition(":")
    for name, versions, python in _OTHERS:
        if repository == name and versions.fullmatch(tag):
            return python
    found = _PYTHON_TAG.search(tag) if _FRAMEWORK.fullmatch(repository) else None
    if found is None:
        return None
    major = int(found["major"])
    return major, int(found["minor"] or _UNNAMED_MINOR[major])


def python_problems(spec: JobSpec, image_uri: str) -> list[Problem]:
    """Return the problem of an image whose Python is too old to start Launcher."""
    python = image_python(image_uri)
    if not spec.starts_launcher or python is None or python >= OLDEST_PYTHON:
        return []
    return [
        Problem(
            what=f"{image_uri} has Python {python[0]}.{python[1]}, and Launcher starts in 3.10 or "
            "newer",
            where="image_uri" if spec.image_uri else "framework_version",
            fix="use a newer image, such as PyTorch 2.0 or TensorFlow 2.12 and py310; a job on "
            "this machine needs no image",
        )
    ]


def image_region(image_uri: str) -> str | None:
    """Return the region of an image of Amazon ECR; None for an image of another registry."""
    found = _ECR.fullmatch(image_uri)
    return found["region"] if found else None


def registry_problems(spec: JobSpec, region: str) -> list[Problem]:
    """Return the problem of a given image in a registry from which SageMaker takes none.

    region: the job's; "" if it is unknown.

    Source: AlgorithmSpecification and TrainingImageConfig of SageMaker's API reference.
    """
    if spec.image_uri is None:
        return []  # AWS's own, or an algorithm
    found = image_region(spec.image_uri)
    is_own = spec.training_repository_access_mode == "Vpc"
    if is_own or (found and found == (region or found)):
        return []
    place = f"Amazon ECR in {region}" if region else "Amazon ECR in the job's region"
    uri = f"ACCOUNT.dkr.ecr.{region or 'REGION'}.amazonaws.com/NAME:TAG"
    return [
        Problem(
            what=f"SageMaker takes images of {place}, and {spec.image_uri} is "
            + (f"in {found}" if found else "in another registry"),
            where="image_uri",
            fix=f"push the image there, and write image_uri: {uri}; or, for a registry that your "
            "VPC reaches, training_repository_access_mode: Vpc",
        )
    ]

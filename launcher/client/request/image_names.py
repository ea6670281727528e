"""Image names: read one, and look up AWS's Hugging Face images.

SageMaker takes images of Amazon ECR in the job's region. Launcher's part of a job needs Python
3.10; the Python of somebody else's image is not judged. AWS's Hugging Face images are listed for
machines without the `sagemaker` package, those with an older Python left out.

Source: `sagemaker` 2.257.0, image_uri_config/huggingface.json (read on 2026-11-25), and
https://github.com/aws/deep-learning-containers/blob/master/available_images.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class HuggingFaceImage:
    """One release of the image, which AWS builds for NVIDIA GPUs alone.

    platform: the end of its tag: CUDA and Ubuntu.
    """

    transformers: str
    pytorch: str
    python: str
    platform: str

    @property
    def tag(self) -> str:
        """The tag of the image."""
        release = f"{self.pytorch}-transformers{self.transformers}"
        return f"{release}-gpu-{self.python}-{self.platform}"


def _image(transformers: str, pytorch: str, python: str, platform: str) -> HuggingFaceImage:
    return HuggingFaceImage(
        transformers=transformers, pytorch=pytorch, python=python, platform=platform
    )


IMAGES = (
    _image("4.28.1", "2.0.0", "py310", "cu118-ubuntu20.04"),
    _image("4.36.0", "2.1.0", "py310", "cu121-ubuntu20.04"),
    _image("4.46.1", "2.3.0", "py311", "cu121-ubuntu20.04"),
    _image("4.48.0", "2.3.0", "py311", "cu121-ubuntu20.04"),
    _image("4.49.0", "2.5.1", "py311", "cu124-ubuntu22.04"),
    _image("4.55.0", "2.7.1", "py312", "cu128-ubuntu22.04"),
    _image("4.56.2", "2.8.0", "py312", "cu129-ubuntu22.04"),
)

_REGISTRY = "763104351884"
#: Regions whose registry is an account of its own.
_REGISTRIES = {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-northeast-3": "364406365360",
    "ap-southeast-3": "907027046896",
    "ca-west-1": "204538143572",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-south-1": "692866216735",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "us-gov-east-1": "446045086412",
    "us-gov-west-1": "442386744353",
}
_OTHER_REGIONS = frozenset(
    {
        *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
        *("ca-central-1", "eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3"),
        *("sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2"),
    }
)


def known_huggingface_image(
    transformers: str, pytorch: str, py_version: str | None, region: str
) -> str | None:
    """Return the URI of a known image; None for other versions or regions.

    A version may leave out its last number, as in SDK v2: "4.36" is "4.36.0".
    """
    registry = _REGISTRIES.get(region, _REGISTRY if region in _OTHER_REGIONS else None)
    for image in IMAGES:
        is_wanted = (
            _matches(transformers, image.transformers)
            and _matches(pytorch, image.pytorch)
            and py_version in (None, image.python)
        )
        if registry and is_wanted:
            domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            name = f"huggingface-pytorch-training:{image.tag}"
            return f"{registry}.dkr.ecr.{region}.{domain}/{name}"
    return None


def _matches(wanted: str, version: str) -> bool:
    return wanted in (version, version.rpartition(".")[0])

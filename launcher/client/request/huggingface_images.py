"""AWS's Hugging Face training images, for machines without the `sagemaker` package.

Source: `sagemaker` 2.257.0, image_uri_config/huggingface.json (read on 2026-11-25), and
https://github.com/aws/deep-learning-containers/blob/master/available_images.md. Images with a
Python before 3.10 are left out: Launcher does not start in them.
"""

from __future__ import annotations

from dataclasses import dataclass


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

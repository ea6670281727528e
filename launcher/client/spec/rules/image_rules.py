"""Rules for the image and the program that runs in it.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.errors import Problem
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_FRAMEWORKS = ("pytorch", "tensorflow")
_VERSIONS = {
    "framework_version": (re.compile(r"\d+(\.\d+){1,2}"), "2.2 or 2.2.0"),
    "py_version": (re.compile(r"py\d+"), "py310"),
    "transformers_version": (re.compile(r"\d+(\.\d+){1,2}"), "4.56 or 4.56.2"),
}
_ACCESS = ("training_repository_access_mode",)
_PROVIDER = ("training_repository_credentials_provider_arn",)


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the image, its version, its registry and its command."""
    yield from _source_problems(spec)
    yield from _version_problems(spec)
    yield from _command_problems(spec)
    yield from _registry_problems(spec)


def _source_problems(spec: JobSpec) -> Iterator[Problem]:
    image, algorithm = spec.image_uri, spec.algorithm_arn
    if image is not None and not re.fullmatch(r"\S+", image):
        fix = "write registry/name:tag"
        yield Problem(path=("image_uri",), what=f'"{image}" cannot be an image', fix=fix)
    if algorithm is None:
        return
    for field, part in _OWN.items():
        if getattr(spec, field):
            yield Problem(
                path=("algorithm_arn",),
                about=((field,),),
                what=f"algorithm_arn is given beside {field}",
                fix=f"remove one of them: an algorithm has its own {part}",
            )


_OWN = {
    "image_uri": "image",
    "framework_version": "image",
    "entry_point": "program",
    "task": "program",
}


def _version_problems(spec: JobSpec) -> Iterator[Problem]:
    """Check the framework and its versions; as in SDK v2, an image_uri overrides a version."""
    if spec.framework is not None and spec.framework not in _FRAMEWORKS:
        what = f'"{spec.framework}" is not a known framework'
        fix = choice_fix(spec.framework, _FRAMEWORKS)
        yield Problem(path=("framework",), what=what, fix=fix)
    for field, (form, example) in _VERSIONS.items():
        value = getattr(spec, field)
        if value is not None and not form.fullmatch(value):
            what = f'"{value}" cannot be a {field}'
            yield Problem(path=(field,), what=what, fix=f"write for example {example}")
        if value is not None and spec.framework is None:
            what = f"{field} is given, but no framework"
            fix = f"write framework: {' or '.join(_FRAMEWORKS)}"
            yield Problem(path=(field,), about=(("framework",),), what=what, fix=fix)
    has_base = spec.framework_version is not None or spec.image_uri is not None
    if spec.transformers_version is not None and not has_base:
        yield Problem(
            path=("transformers_version",),
            about=(("framework_version",),),
            what="transformers_version is given, but no framework_version",
            fix="write the version of PyTorch or TensorFlow that the image has, such as "
            'framework_version: "2.8"',
        )


def _command_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in ("container_entry_point", "container_arguments"):
        words = getattr(spec, field)
        code = "entry_point" if spec.entry_point else "task"
        if words and getattr(spec, code):
            what = f"{field} is given beside {code}"
            fix = "remove one of them: a container starts either Launcher or a command of your own"
            yield Problem(path=(field,), about=((code,),), what=what, fix=fix)


def _registry_problems(spec: JobSpec) -> Iterator[Problem]:
    mode = spec.training_repository_access_mode
    provider = spec.training_repository_credentials_provider_arn
    if mode == "Vpc" and not spec.subnets:
        what = "a registry in a VPC, but the job is in none"
        fix = "write subnets and security_group_ids"
        yield Problem(path=_ACCESS, about=(("subnets",),), what=what, fix=fix)
    if provider is not None and mode != "Vpc":
        what = "credentials for a registry that is not in a VPC"
        fix = "write training_repository_access_mode: Vpc, or remove the credentials"
        yield Problem(path=_PROVIDER, about=(_ACCESS,), what=what, fix=fix)

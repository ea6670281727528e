"""AWS's own training images by framework and version, looked up in the `sagemaker` package.

The package's image tables change with every release, so they are not copied here. Both of its
major versions work: sagemaker.core.image_uris (3) and sagemaker.image_uris (2).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.client import catalogue
from launcher.client.request.image_names import known_huggingface_image
from launcher.client.spec import InstanceGroup, JobSpec, job_roles, leading_group
from launcher.errors import Problem, SpecError
from launcher.shared import Role

_MODULES = ("sagemaker.core.image_uris", "sagemaker.image_uris")
_PACKAGE = "sagemaker"
#: Instance families with accelerators, for types that are not in the catalogue yet.
_ACCELERATED = re.compile(r"ml\.(g|p|trn)\d")
#: CUDA of the images of the model parallel library, by a part of PyTorch's version.
_SMP_CUDA = {"2.5": "cu124", "2.1": "cu121", "2.2": "cu121", "2.3": "cu121", "2.4": "cu121"}


def image_of(spec: JobSpec, region: str) -> str | None:
    """Return the image of a spec's framework and version, or None if it gives no version.

    Raises SpecError if there is no such image, or if it cannot be looked up here.
    """
    if spec.framework_version is None or not spec.groups:
        return None
    if spec.framework is None:
        raise _refused(
            f'framework_version is "{spec.framework_version}", but framework is not set',
            "write framework: pytorch, or framework: tensorflow",
            where="framework_version",
        )
    instance_type = _deciding_group(spec).instance_type
    if spec.transformers_version is not None:
        return _huggingface_image(spec, spec.transformers_version, instance_type, region)
    return find_image(
        spec.framework,
        spec.framework_version,
        spec.py_version,
        instance_type,
        region,
        libraries=spec.toolkit_strategies,
    )


def _huggingface_image(spec: JobSpec, transformers: str, instance_type: str, region: str) -> str:
    """Return Hugging Face's image for a version of transformers and of its framework."""
    version = str(spec.framework_version)
    if not _has_package() and spec.framework == "pytorch" and _has_accelerators(instance_type):
        known = known_huggingface_image(transformers, version, spec.py_version, region)
        if known is not None:
            return known
    base = f"{spec.framework}{version}"
    return find_image(
        "huggingface", transformers, spec.py_version, instance_type, region, base=base
    )


def find_image(
    framework: str,
    version: str,
    py_version: str | None,
    instance_type: str,
    region: str,
    *,
    libraries: Mapping[str, object] | None = None,
    base: str | None = None,
) -> str:
    """Return the URI of a framework's training image, which depends on the type's accelerators.

    libraries: AWS's own libraries, as SDK v2 writes them; version 2 of the model parallel library
    has images of its own.
    base: the framework and version below it, such as "pytorch2.1.0" below Hugging Face's.

    Raises SpecError if there is no such image, or if the package is not installed.
    """
    below = {} if base is None else {"base_framework_version": base}
    with _silence():
        retrieve = _retriever()
        try:
            return str(
                retrieve(
                    region=region,
                    version=version,
                    py_version=py_version,
                    instance_type=instance_type,
                    image_scope="training",
                    **_image_family(framework, version, instance_type, libraries or {}),
                    **below,
                )
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            OSError,
        ) as error:  # what it raises for a missing image
            told = " ".join(str(error).split())
            details = ", ".join(filter(None, (base, py_version)))
            wanted = f"{framework} {version}{f' ({details})' if details else ''}"
            raise _refused(
                f"{_release()} knows no image of {wanted} for {instance_type} in {region}: {told}",
                "use a version that it knows, upgrade it (pip install -U sagemaker), or give "
                "image_uri",
                where="framework_version",
            ) from error


def _image_family(
    framework: str, version: str, instance_type: str, libraries: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that choose between a framework's images and those of AWS's library.

    Source: get_training_image_uri in image_uris.py of sagemaker 2.257.0.
    """
    if "smdistributed" not in libraries:
        return {"framework": framework}
    if "torch_distributed" not in libraries or "modelparallel" not in libraries["smdistributed"]:
        # early versions have images of their own with the libraries, on any type but p4d
        return {"framework": framework, "distribution": dict(libraries)}
    cuda = next((cuda for part, cuda in _SMP_CUDA.items() if part in version), "cu118")
    if cuda == "cu118" and "p5" in instance_type:
        cuda = "cu121"
    return {
        "framework": "pytorch-smp",
        "container_version": cuda,
        "distribution": libraries,
    }


def _retriever() -> Callable[..., Any]:
    """Return the package's own look-up function."""
    if not _has_package():
        raise _refused(
            "the image of a framework_version is looked up in the sagemaker package, which is not "
            "installed",
            "pip install 'hetero-launcher[sagemaker]', or give image_uri",
        )
    for name in _MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name.startswith(str(error.name)):  # the package's other major version
                continue
            raise _broken(error) from error
        except ImportError as error:
            raise _broken(error) from error
        retrieve: Callable[..., Any] = module.retrieve
        return retrieve
    raise _broken(f"it has neither {' nor '.join(_MODULES)}")


def _has_package() -> bool:
    try:
        return importlib.util.find_spec(_PACKAGE) is not None
    except ValueError:  # a module without a spec stands in its place
        return _PACKAGE in sys.modules and sys.modules[_PACKAGE] is not None


def _release() -> str:
    """Return the package's name and version; for version 3, sagemaker-core is enough."""
    for name in (_PACKAGE, f"{_PACKAGE}-core"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(name)}"
    return _PACKAGE


def _deciding_group(spec: JobSpec) -> InstanceGroup:
    """Return the group that decides the image, which all groups share.

    This is the train group, unless only another group has accelerators. SDK v2 takes the first
    group whose family is g or p, or else the first group.
    """
    roles, _ = job_roles(spec)
    leader = leading_group(spec, roles)
    train_first = sorted(
        spec.groups,
        key=lambda group: (
            group != leader and roles.get(group.instance_group_name) is not Role.TRAIN
        ),
    )
    accelerated = (group for group in train_first if _has_accelerators(group.instance_type))
    return next(accelerated, train_first[0])


def _has_accelerators(instance_type: str) -> bool:
    known = catalogue.find(instance_type)
    return known.accelerators > 0 if known else bool(_ACCELERATED.match(instance_type))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress the package's prints and logs about which settings it read or failed to read."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    unheard = io.StringIO()
    try:
        with contextlib.redirect_stdout(unheard), contextlib.redirect_stderr(unheard):
            yield
    finally:
        logging.disable(before)


def _broken(reason: object) -> SpecError:
    return _refused(
        f"the image of a framework_version is looked up in the sagemaker package, which cannot be "
        f"imported: {reason}",
        "repair it (pip install -U sagemaker), or give image_uri",
    )


def _refused(what: str, fix: str, where: str = "image_uri") -> SpecError:
    return SpecError([Problem(what=what, where=where, fix=fix)])

"""The constructor and the attributes of an Estimator, made of the fields of a JobSpec.

Type checkers and editors read arguments.pyi, which tests/estimator/test_job_fields.py derives.
"""

from __future__ import annotations

from typing import Any

from launcher.client.estimator.spec_attributes import (
    FIELDS,
    METHODS,
    SpecAttribute,
    SpecAttributes,
    described,
    refusing_unknown,
)
from launcher.client.spec import JobSpec, field_doc


class JobArguments(SpecAttributes):
    """The constructor arguments of an Estimator, kept as `spec`.

    The arguments are those of SageMaker SDK v2's Estimator, with the same meaning; docs/jobs.md
    lists the differences. Objects of the `sagemaker` package are accepted by their attributes.

    Source: https://sagemaker.readthedocs.io/en/v2.257.0/api/training/estimators.html
    """

    @refusing_unknown()
    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        **more: Any,
    ) -> None:
        self.sagemaker_session = more.pop("sagemaker_session", None)
        self.spec = described(
            JobSpec(),
            {
                "image_uri": image_uri,
                "role": role,
                "instance_count": instance_count,
                "instance_type": instance_type,
                **more,
            },
        )


JobArguments.__init__.__doc__ = "\n".join(
    [
        "Describe a job; nothing is sent.",
        "",
        "Args:",
        *(f"    {name}: {field_doc(part)}" for name, part in FIELDS.items()),
        "    sagemaker_session: A LocalSession, an AwsSession, or a Session of `sagemaker`; AWS if "
        "not given.",
        "",
        "Raises:",
        "    TypeError: An argument is unknown; a similar one is suggested.",
        "    SpecError: An argument of SDK v2 that Launcher does not accept, or a wrong value.",
    ]
)
for _name in FIELDS:
    if _name not in METHODS:
        setattr(JobArguments, _name, SpecAttribute(_name))

"""The CreateTrainingJob requests of one package, as they leave the machine, for each configuration.

Arguments: sagemaker or launcher. Prints a JSON object: by the configuration's name, the request, or
the text of the error with which the package refuses it. No call leaves: botocore's `before-send`
event answers each, as AWS would.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from v2_configurations import ROLE, Configuration, configurations

NOT_FOUND = {"__type": "ValidationException", "message": "Requested resource not found."}
IDENTITY = """<GetCallerIdentityResponse><GetCallerIdentityResult>
<Arn>arn:aws:sts::111122223333:assumed-role/Training/me</Arn><UserId>A</UserId>
<Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""
NAMED_ROLE = f"""<GetRoleResponse><GetRoleResult><Role><Path>/</Path><Arn>{ROLE}</Arn>
<RoleName>Training</RoleName><RoleId>A</RoleId><AssumeRolePolicyDocument>x</AssumeRolePolicyDocument>
<CreateDate>2024-01-01T00:00:00Z</CreateDate></Role></GetRoleResult></GetRoleResponse>"""

BUCKETS = "<ListAllMyBucketsResult><Buckets>{}</Buckets></ListAllMyBucketsResult>".format(
    "".join(
        f"<Bucket><Name>{name}</Name><CreationDate>2024-01-01T00:00:00Z</CreationDate></Bucket>"
        for name in ("my-bucket", "sagemaker-us-east-1-111122223333")
    )
)


class Wire:
    """The end of the wire: answers every call, and keeps the last CreateTrainingJob."""

    def __init__(self) -> None:
        self.request: dict[str, Any] | None = None
        self.session = boto3.Session(
            aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
        )
        self.session.events.register("before-send", self._answer)

    def _answer(self, request: Any, event_name: str, **_: Any) -> AWSResponse:
        operation = event_name.rpartition(".")[2]
        if operation == "CreateTrainingJob":
            self.request = json.loads(request.body)
        status, body = self._answers(operation)
        content = io.BytesIO(body.encode())
        content.stream = lambda *_, **__: iter([body.encode()])  # type: ignore[attr-defined]
        headers = {"x-amz-bucket-region": "us-east-1", "ETag": '"e"', "Content-Length": len(body)}
        return AWSResponse(request.url, status, headers, content)

    def _answers(self, operation: str) -> tuple[int, str]:
        return {
            "CreateTrainingJob": (200, '{"TrainingJobArn": "arn:job"}'),
            "DescribeTrainingJob": (400, json.dumps(NOT_FOUND)),
            "GetCallerIdentity": (200, IDENTITY),
            "GetRole": (200, NAMED_ROLE),
            "HeadObject": (404, ""),
            "ListBuckets": (200, BUCKETS),
        }.get(operation, (200, ""))


def sdk_of(package: str) -> Any:
    """Return the classes of a package by one name each."""
    if package == "launcher":
        import launcher

        return launcher
    import sagemaker
    import sagemaker.inputs
    import sagemaker.pytorch
    import sagemaker.tensorflow
    from sagemaker.instance_group import InstanceGroup

    return types.SimpleNamespace(
        Session=sagemaker.Session,
        Estimator=sagemaker.estimator.Estimator,
        PyTorch=sagemaker.pytorch.PyTorch,
        TensorFlow=sagemaker.tensorflow.TensorFlow,
        InstanceGroup=InstanceGroup,
        TrainingInput=sagemaker.inputs.TrainingInput,
        FileSystemInput=sagemaker.inputs.FileSystemInput,
        ShuffleConfig=sagemaker.inputs.ShuffleConfig,
    )


def outcome(sdk: Any, configuration: Configuration, wire: Wire) -> dict[str, Any]:
    """Return what a package sends for a configuration, or the error with which it refuses it."""
    script = {} if configuration.estimator == "Estimator" else {"entry_point": "train.py"}
    wire.request = None
    try:
        session = sdk.Session(boto_session=wire.session, **configuration.session)
        given = {
            "role": ROLE,
            "output_path": "s3://out-bucket/out",
            **script,
            **configuration.arguments(sdk),
        }
        if given.get("entry_point"):
            given.setdefault("source_dir", "source")
        estimator = getattr(sdk, configuration.estimator)(sagemaker_session=session, **given)
        estimator.fit(configuration.inputs(sdk), wait=False, job_name="job-1")
    except Exception as error:  # noqa: BLE001 (the answer is compared, whatever it is)
        return {"error": f"{type(error).__name__}: {error}"}
    return {"request": wire.request}


def main(package: str) -> None:
    """Print the outcomes of a package."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    Path("source").mkdir(exist_ok=True)
    Path("source/train.py").write_text("print(1)\n")
    sdk, wire, answer = sdk_of(package), Wire(), sys.stdout
    sys.stdout = sys.stderr
    found = {each.name: outcome(sdk, each, wire) for each in configurations()}
    json.dump(found, answer, indent=1, sort_keys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

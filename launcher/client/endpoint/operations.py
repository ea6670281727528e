"""The operations of SageMaker that the endpoint answers, each from parsed arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from botocore.utils import parse_to_aware_datetime
from botocore.validate import ParamValidator

from launcher.client.endpoint.cloudwatch_operations import CloudWatchMetrics, Logs
from launcher.client.endpoint.job_operations import Jobs, not_found
from launcher.client.endpoint.job_search import search_jobs
from launcher.client.endpoint.listing import list_jobs_page, refuse_token
from launcher.client.endpoint.responses import ApiError, validation_error
from launcher.client.endpoint.s3_gateway import Objects
from launcher.client.request import aws_answer, find_violations, find_violations_of, service_model
from launcher.client.sessions import bucket_and_key, is_s3

if TYPE_CHECKING:
    from botocore.model import OperationModel, Shape

    from launcher.shared import TrainingJobRequest


Arguments = Mapping[str, Any]


class Operations:
    """Answers SageMaker's operations; safe to call from several threads."""

    def __init__(
        self, jobs: Jobs, objects: Objects, logs: Logs, metrics: CloudWatchMetrics
    ) -> None:
        self._jobs = jobs
        self._objects = objects
        self._logs = logs
        self._metrics = metrics
        tags = TagOperations(jobs)
        self._operations: dict[str, Callable[[Arguments, str], Mapping[str, Any] | None]] = {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": self._describe,
            "ListTrainingJobs": self._list,
            "Search": self._search,
            "StopTrainingJob": self._stop,
            "UpdateTrainingJob": self._update,
            "DeleteTrainingJob": self._delete,
            "AddTags": tags.add_tags,
            "ListTags": tags.list_tags,
            "DeleteTags": tags.delete_tags,
        }

    def execute(self, name: str, arguments: Arguments, region: str) -> dict[str, Any]:
        """Return the operation's output document; raise ApiError."""
        if operation := self._operations.get(name):
            return to_output(name, operation(parse_input(name, arguments), region) or {})
        if is_list(name):
            return to_output(name, list_nothing(name, parse_input(name, arguments)))
        raise ApiError(
            "UnknownOperationException",
            f"launcher endpoint does not support {name}: it has training jobs only "
            f"({', '.join(self._operations)})",
        )

    def _create(self, arguments: Arguments, region: str) -> dict[str, object]:
        self._jobs.check_name(arguments["TrainingJobName"], region)
        check_tag_keys(tag["Key"] for tag in arguments.get("Tags", ()))
        _check_locations(arguments, region, self._objects)
        return {"TrainingJobArn": self._jobs.create(arguments, region)}

    def _describe(self, arguments: Arguments, region: str) -> dict[str, Any]:
        return self._jobs.describe(arguments["TrainingJobName"], region)

    def _list(self, arguments: Arguments, region: str) -> dict[str, object]:
        return list_jobs_page(self._jobs.summaries(region), arguments)

    def _search(self, arguments: Arguments, region: str) -> dict[str, object]:
        return search_jobs(self._jobs.all(region), arguments)

    def _stop(self, arguments: Arguments, region: str) -> None:
        self._jobs.stop(arguments["TrainingJobName"], region)

    def _delete(self, arguments: Arguments, region: str) -> None:
        self._jobs.delete(arguments["TrainingJobName"], region)
        self._logs.delete_streams(arguments["TrainingJobName"], region)
        self._metrics.delete(arguments["TrainingJobName"], region)

    def _update(self, arguments: Arguments, region: str) -> None:
        """Refuse an update: a local job has none of what AWS can change in a running job."""
        self._jobs.describe(arguments["TrainingJobName"], region)
        raise validation_error(
            "UpdateTrainingJob changes the profiler, the warm pool or the remote debugging of a "
            "job, and a local job has none of them"
        )


def _check_locations(request: Mapping[str, Any], region: str, objects: Objects) -> None:
    """Raise ApiError for inputs without objects, and for an output bucket that does not exist."""
    for uri in _input_uris(request):
        bucket, prefix = bucket_and_key(uri)
        if not objects.has_objects(bucket, prefix, region):
            raise validation_error(_no_objects(uri, bucket, region, request["RoleArn"]))
    output = request["OutputDataConfig"]["S3OutputPath"]
    bucket, _ = bucket_and_key(output)
    if is_s3(output) and not objects.has_bucket(bucket, region):
        raise validation_error(
            f"The S3 bucket of OutputDataConfig, {bucket}, does not exist. Please "
            f"ensure that the bucket exists in the selected region ({region})."
        )


def _no_objects(uri: str, bucket: str, region: str, role: str) -> str:
    """Return AWS's message (as in aws/amazon-sagemaker-examples, issue 2267)."""
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that '
        f"the bucket exists in the selected region ({region}), that objects exist under that S3 "
        f'prefix, and that the role "{role}" has "s3:ListBucket" permissions on bucket "{bucket}".'
    )


def _input_uris(request: Mapping[str, Any]) -> Iterator[str]:
    for channel in request.get("InputDataConfig", ()):
        uri = channel["DataSource"].get("S3DataSource", {}).get("S3Uri", "")
        if is_s3(uri):
            yield uri


def is_list(name: str) -> bool:
    """Return True for the name of one of SageMaker's list operations."""
    return name.startswith("List") and name in service_model().operation_names


def list_nothing(name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the empty page of a list; raise ApiError for a list below a resource: it is absent."""
    model = operation_model(name)
    if _has_parent(model):
        raise _absent_parent(model)
    refuse_token(arguments)
    return {
        field: []
        for field, shape in model.output_shape.members.items()
        if shape.type_name == "list"
    }


def _has_parent(model: OperationModel) -> bool:
    """Return True if a list requires the name of a resource; an enumeration is a mere filter."""
    shape = model.input_shape
    return any(not getattr(shape.members[name], "enum", ()) for name in shape.required_members)


def _absent_parent(model: OperationModel) -> ApiError:
    if any(shape.name == "ResourceNotFound" for shape in model.error_shapes):
        return ApiError("ResourceNotFound", not_found().message)
    return not_found()


#: Per resource. Source: "Tag naming limits and requirements", AWS tagging user guide.
_MOST_TAGS = 50
_RESERVED = "aws:"

Tags = Mapping[str, str]


class TagOperations:
    """Answers the operations on tags; of simultaneous changes none is lost."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def add_tags(self, arguments: Arguments, region: str) -> dict[str, object]:
        """Add or overwrite tags and return all; raise ApiError for too many or reserved ones."""
        added = {tag["Key"]: tag["Value"] for tag in arguments["Tags"]}
        check_tag_keys(added)

        def change(tags: Tags) -> Tags:
            changed = {**tags, **added}
            if len(changed) > _MOST_TAGS:
                raise validation_error(
                    f"A resource has at most {_MOST_TAGS} tags, and this request would make it "
                    f"{len(changed)}"
                )
            return changed

        entry = self._jobs.registry.change_tags(self._name_of(arguments, region), change)
        return {"Tags": to_list(entry.tags if entry else {})}

    def list_tags(self, arguments: Arguments, region: str) -> dict[str, object]:
        """Return a job's tags, at most 50, on one page."""
        refuse_token(arguments)
        entry = self._jobs.registry.read(self._name_of(arguments, region))
        return {"Tags": to_list(entry.tags if entry else {})}

    def delete_tags(self, arguments: Arguments, region: str) -> None:
        """Delete tags by their keys; ignore those that the job does not have."""
        keys = arguments["TagKeys"]
        check_tag_keys(keys)
        self._jobs.registry.change_tags(
            self._name_of(arguments, region),
            lambda tags: {key: tag for key, tag in tags.items() if key not in keys},
        )

    def _name_of(self, arguments: Arguments, region: str) -> str:
        """Return the name of the job that an ARN identifies; raise ApiError if there is none."""
        arn: str = arguments["ResourceArn"]
        name = arn.rpartition("/")[2]
        if self._jobs.registry.read(name) is None or arn != self._jobs.arn(name, region):
            raise not_found()
        return name


def check_tag_keys(keys: Iterable[str]) -> None:
    """Raise ApiError for a key that only AWS may set (as in aws/sagemaker-python-sdk, #1301)."""
    for key in keys:
        if key.lower().startswith(_RESERVED):
            raise validation_error(f"System prefix 'aws:' reserved for AWS usage in tag key: {key}")


def to_list(tags: Tags) -> list[dict[str, str]]:
    """Return tags in the API's form."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def operation_model(name: str) -> OperationModel:
    """Return botocore's model of an operation."""
    return service_model().operation_model(name)


def to_output(name: str, document: Mapping[str, object]) -> dict[str, Any]:
    """Return the document as an operation answers it: only its fields, with times in epoch seconds.

    Raises ApiError (InternalFailure) for an absent required field or a value of another type.
    """
    shape = operation_model(name).output_shape
    if shape is None:
        return {}
    output: dict[str, Any] = _to_shape(document, shape)
    if errors := _model_errors(output, shape):
        raise ApiError("InternalFailure", f"the output of {name}: {errors}", 500)
    return output


def _to_shape(value: Any, shape: Shape) -> Any:
    if shape.type_name == "structure":
        return {
            name: _to_shape(value[name], member)
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if shape.type_name == "list":
        return [_to_shape(each, shape.member) for each in value]
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    return value


def parse_input(name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments that an operation defines; ignore unknown ones, as AWS does.

    Raises ApiError: SerializationException for a value of another type, ValidationException for
    what the model or, for a new job, the rules between fields do not allow.
    """
    shape = operation_model(name).input_shape
    known: dict[str, Any] = _known_fields(arguments, shape)
    for error in _model_errors(known, shape):
        if error.startswith("Invalid type"):
            raise ApiError("SerializationException", error)
    is_new_job = name == "CreateTrainingJob"
    found = (
        find_violations(cast("TrainingJobRequest", known))
        if is_new_job
        else find_violations_of(shape, known)
    )
    if message := aws_answer(found):
        raise validation_error(message)
    return known


def _model_errors(value: object, shape: Shape) -> list[str]:
    report: str = ParamValidator().validate(value, shape).generate_report()
    return report.splitlines()


def _known_fields(value: object, shape: Shape) -> Any:
    """Return the parts of a value that a shape defines, in the order in which they were sent."""
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return {
            name: _known_fields(each, shape.members[name])
            for name, each in value.items()
            if name in shape.members and each is not None
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_known_fields(each, shape.member) for each in value]
    return _seconds(value) if shape.type_name == "timestamp" else value


def _seconds(value: object) -> float:
    """Return a time in seconds since the epoch; a client may send a number or ISO 8601."""
    try:
        return float(parse_to_aware_datetime(value).timestamp())
    except (ValueError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
        raise ApiError("SerializationException", f"{value!r} is not a time") from error

"""The operations of SageMaker that the endpoint answers, each from parsed arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from launcher.client.endpoint.api_error import Refusal, invalid
from launcher.client.endpoint.api_model import answered, taken
from launcher.client.endpoint.endpoint_paths import check_places
from launcher.client.endpoint.job_operations import Jobs, not_found
from launcher.client.endpoint.job_search import searched
from launcher.client.endpoint.listing import listed
from launcher.client.endpoint.log_operations import Logs
from launcher.client.endpoint.running_endpoints import Entry
from launcher.client.endpoint.s3_gateway import Objects

Arguments = Mapping[str, Any]


class Operations:
    """Answers SageMaker's operations; safe to call from several threads."""

    def __init__(self, jobs: Jobs, objects: Objects, logs: Logs) -> None:
        self._jobs = jobs
        self._objects = objects
        self._logs = logs
        self._answers: dict[str, Callable[[Arguments, str], Mapping[str, Any] | None]] = {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": self._describe,
            "ListTrainingJobs": self._list,
            "Search": self._search,
            "StopTrainingJob": self._stop,
            "UpdateTrainingJob": self._update,
            "DeleteTrainingJob": self._delete,
            "AddTags": self._add_tags,
            "ListTags": self._list_tags,
            "DeleteTags": self._delete_tags,
        }

    def answer(self, name: str, arguments: Arguments, region: str) -> dict[str, Any]:
        """Return the operation's output document; raise Refusal."""
        operation = self._answers.get(name)
        if operation is None:
            raise Refusal(
                "UnknownOperationException",
                f"launcher endpoint does not answer {name}: it has training jobs only "
                f"({', '.join(self._answers)})",
            )
        return answered(name, operation(taken(name, arguments), region) or {})

    def _create(self, arguments: Arguments, region: str) -> dict[str, object]:
        self._jobs.check_name(arguments["TrainingJobName"], region)
        check_places(arguments, region, self._objects)
        return {"TrainingJobArn": self._jobs.create(arguments, region)}

    def _describe(self, arguments: Arguments, region: str) -> dict[str, Any]:
        return self._jobs.describe(arguments["TrainingJobName"], region)

    def _list(self, arguments: Arguments, region: str) -> dict[str, object]:
        return listed(self._jobs.summaries(region), arguments)

    def _search(self, arguments: Arguments, region: str) -> dict[str, object]:
        return searched(self._jobs.all(region), arguments)

    def _stop(self, arguments: Arguments, region: str) -> None:
        self._jobs.stop(arguments["TrainingJobName"], region)

    def _delete(self, arguments: Arguments, region: str) -> None:
        self._jobs.delete(arguments["TrainingJobName"], region)
        self._logs.forget(arguments["TrainingJobName"], region)

    def _update(self, arguments: Arguments, region: str) -> None:
        """Refuse an update: a local job has nothing of what AWS can change in a running job."""
        self._jobs.describe(arguments["TrainingJobName"], region)
        raise invalid(
            "UpdateTrainingJob changes the profiler, the warm pool or the remote debugging of a "
            "job, and a local job has none of them"
        )

    # tags --------------------------------------------------------------------------------------

    def _add_tags(self, arguments: Arguments, region: str) -> dict[str, object]:
        name, entry = self._tagged(arguments, region)
        added = {tag["Key"]: tag["Value"] for tag in arguments["Tags"]}
        self._jobs.registry.write(name, Entry(region=region, tags={**entry.tags, **added}))
        return self._list_tags(arguments, region)

    def _list_tags(self, arguments: Arguments, region: str) -> dict[str, object]:
        _, entry = self._tagged(arguments, region)
        return {"Tags": [{"Key": key, "Value": value} for key, value in entry.tags.items()]}

    def _delete_tags(self, arguments: Arguments, region: str) -> None:
        name, entry = self._tagged(arguments, region)
        left = {key: tag for key, tag in entry.tags.items() if key not in arguments["TagKeys"]}
        self._jobs.registry.write(name, Entry(region=region, tags=left))

    def _tagged(self, arguments: Arguments, region: str) -> tuple[str, Entry]:
        """Return the name of the job that an ARN identifies, and its entry."""
        name = arguments["ResourceArn"].rpartition("/")[2]
        entry = self._jobs.registry.read(name)
        if entry is None or arguments["ResourceArn"] != self._jobs.arn(name, region):
            raise not_found()
        return name, entry

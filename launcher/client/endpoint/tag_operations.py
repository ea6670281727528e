"""AddTags, ListTags and DeleteTags, for training jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.client.endpoint.job_operations import Jobs, not_found
from launcher.client.endpoint.listing import refuse_token
from launcher.client.endpoint.responses import validation_error

#: Per resource. Source: "Tag naming limits and requirements", AWS tagging user guide.
_MOST_TAGS = 50
_RESERVED = "aws:"

Arguments = Mapping[str, Any]
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

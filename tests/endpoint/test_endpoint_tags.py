"""Tags of jobs: changes at once, their number, and keys that belong to AWS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from customer import Customer, request

THREADS = 30


@pytest.fixture(scope="module")
def arn(customer: Customer) -> str:
    return str(customer.ensure("tagged")["TrainingJobArn"])


def tags_of(customer: Customer, arn: str) -> dict[str, str]:
    tags = customer.sagemaker.list_tags(ResourceArn=arn)["Tags"]
    return {tag["Key"]: tag["Value"] for tag in tags}


def clear(customer: Customer, arn: str) -> None:
    if keys := list(tags_of(customer, arn)):
        customer.sagemaker.delete_tags(ResourceArn=arn, TagKeys=keys)


@pytest.mark.long
def test_thirty_threads_lose_no_tag(customer: Customer, arn: str) -> None:
    clear(customer, arn)
    client = customer.endpoint.client("sagemaker", config=Config(max_pool_connections=THREADS))
    old = [{"Key": f"old-{number}", "Value": "x"} for number in range(20)]
    client.add_tags(ResourceArn=arn, Tags=old)

    def change(number: int) -> None:
        if number < len(old):
            client.delete_tags(ResourceArn=arn, TagKeys=[f"old-{number}"])
        client.add_tags(ResourceArn=arn, Tags=[{"Key": f"new-{number}", "Value": str(number)}])

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(change, range(THREADS)))
    assert tags_of(customer, arn) == {f"new-{number}": str(number) for number in range(THREADS)}


@pytest.mark.long
def test_a_resource_has_fifty_tags_at_most(customer: Customer, arn: str) -> None:
    clear(customer, arn)
    fifty = [{"Key": str(number), "Value": "x"} for number in range(50)]
    assert len(customer.sagemaker.add_tags(ResourceArn=arn, Tags=fifty)["Tags"]) == 50
    with pytest.raises(ClientError, match="at most 50 tags") as caught:
        customer.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "50", "Value": "x"}])
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    overwritten = customer.sagemaker.add_tags(
        ResourceArn=arn, Tags=[{"Key": "7", "Value": "changed"}]
    )["Tags"]
    assert len(overwritten) == 50
    assert tags_of(customer, arn)["7"] == "changed"


@pytest.mark.long
@pytest.mark.parametrize("operation", ["add", "delete", "create"])
@pytest.mark.parametrize("key", ["aws:mine", "AWS:mine"])
def test_keys_of_aws_are_refused(customer: Customer, arn: str, operation: str, key: str) -> None:
    tags = [{"Key": key, "Value": "x"}]
    calls: dict[str, Any] = {
        "add": lambda: customer.sagemaker.add_tags(ResourceArn=arn, Tags=tags),
        "delete": lambda: customer.sagemaker.delete_tags(ResourceArn=arn, TagKeys=[key]),
        "create": lambda: customer.sagemaker.create_training_job(**request("never", Tags=tags)),
    }
    with pytest.raises(ClientError) as caught:
        calls[operation]()
    assert caught.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": f"System prefix 'aws:' reserved for AWS usage in tag key: {key}",
    }


@pytest.mark.long
def test_tags_of_a_deleted_job(customer: Customer) -> None:
    arn = customer.ensure("tagged-and-gone")["TrainingJobArn"]
    customer.sagemaker.delete_training_job(TrainingJobName="tagged-and-gone")
    with pytest.raises(ClientError, match="not found"):
        customer.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])

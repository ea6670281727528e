"""Lists and searches: filters, orders, and pages that neither lose nor repeat a job."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from launcher.client.endpoint.api_model import to_output
from launcher.client.endpoint.job_search import search_jobs
from launcher.client.endpoint.listing import list_jobs_page

START = datetime(2026, 11, 22, tzinfo=timezone.utc)


def job(number: int, **changes: Any) -> dict[str, Any]:
    """A document; the higher its number, the newer it is."""
    moment = START + timedelta(minutes=number)
    return {
        "TrainingJobName": f"job-{number}",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/job",
        "TrainingJobStatus": "Completed" if number % 2 else "Failed",
        "CreationTime": moment,
        "LastModifiedTime": moment,
        "HyperParameters": {"lr": str(number / 10), "net.kind": "wide" if number % 3 else "deep"},
        "Tags": [{"Key": "team", "Value": f"team-{number % 4}"}],
        "InputDataConfig": [{"ChannelName": "train", "InputMode": "File"}],
        "LocalNotes": ["not for clients"],
        **changes,
    }


JOBS = [job(number) for number in (3, 0, 11, 7, 1, 9, 2, 10, 4, 8, 5, 6)]


def numbers(summaries: list[dict[str, Any]]) -> list[int]:
    return [int(each["TrainingJobName"].removeprefix("job-")) for each in summaries]


def where(name: str, operator: str, value: str) -> dict[str, str]:
    return {"Name": name, "Operator": operator, "Value": value}


def all_pages(**arguments: Any) -> list[int]:
    found: list[int] = []
    page = list_jobs_page(JOBS, arguments)
    while True:
        found += numbers(page["TrainingJobSummaries"])
        if not page["NextToken"]:
            return found
        page = list_jobs_page(JOBS, {**arguments, "NextToken": page["NextToken"]})


@pytest.mark.parametrize("size", [1, 5, 11, 12, 100])
def test_pages_of_any_size_have_every_job_once(size: int) -> None:
    assert all_pages(MaxResults=size) == list(range(11, -1, -1))
    assert all_pages(MaxResults=size, SortOrder="Ascending") == list(range(12))


def test_jobs_that_come_between_pages_shift_nothing() -> None:
    page = list_jobs_page(JOBS, {"MaxResults": 5})
    newer = [*JOBS, job(20), job(21)]
    rest = list_jobs_page(newer, {"MaxResults": 100, "NextToken": page["NextToken"]})
    assert numbers(rest["TrainingJobSummaries"]) == list(range(6, -1, -1))


def test_a_page_of_one_status_is_chosen_from_the_page_without_it() -> None:
    page = list_jobs_page(JOBS, {"MaxResults": 4, "StatusEquals": "Failed"})
    assert numbers(page["TrainingJobSummaries"]) == [10, 8]
    assert page["NextToken"]


def test_filters() -> None:
    def chosen(**arguments: Any) -> list[int]:
        return numbers(
            list_jobs_page(JOBS, {"MaxResults": 100, **arguments})["TrainingJobSummaries"]
        )

    moment = START.timestamp()
    assert chosen(NameContains="job-1") == [11, 10, 1]
    assert chosen(CreationTimeAfter=moment + 600) == [11]
    assert chosen(CreationTimeBefore=moment + 60) == [0]
    assert chosen(LastModifiedTimeAfter=moment + 60, LastModifiedTimeBefore=moment + 240) == [3, 2]
    assert chosen(SortBy="Name", SortOrder="Ascending", NameContains="job-1") == [1, 10, 11]
    assert chosen(WarmPoolStatusEquals="Available") == []


def test_summaries_have_the_fields_of_the_model_only() -> None:
    (summary,) = to_output("ListTrainingJobs", list_jobs_page([job(1)], {}))["TrainingJobSummaries"]
    assert summary == {
        "TrainingJobName": "job-1",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/job",
        "CreationTime": START.timestamp() + 60,
        "LastModifiedTime": START.timestamp() + 60,
        "TrainingJobStatus": "Completed",
    }


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({}, list(range(11, -1, -1))),
        ({"Filters": [{"Name": "TrainingJobName", "Operator": "Equals", "Value": "job-3"}]}, [3]),
        ({"Filters": [{"Name": "TrainingJobName", "Value": "job-3"}]}, [3]),
        ({"Filters": [{"Name": "Tags.team", "Value": "team-1"}]}, [9, 5, 1]),
        ({"Filters": [{"Name": "Tags.nobody", "Operator": "Exists"}]}, []),
        ({"Filters": [{"Name": "HyperParameters.net.kind", "Value": "deep"}]}, [9, 6, 3, 0]),
        (
            {"Filters": [{"Name": "HyperParameters.lr", "Operator": "LessThan", "Value": "0.25"}]},
            [2, 1, 0],
        ),
        (
            {
                "Filters": [
                    {
                        "Name": "CreationTime",
                        "Operator": "GreaterThanOrEqualTo",
                        "Value": "2026-11-22T00:10:00+00:00",
                    }
                ]
            },
            [11, 10],
        ),
        (
            {"Filters": [{"Name": "TrainingJobName", "Operator": "In", "Value": "job-1,job-2"}]},
            [2, 1],
        ),
        (
            {
                "Operator": "Or",
                "SubExpressions": [
                    {"Filters": [{"Name": "TrainingJobName", "Value": "job-4"}]},
                    {
                        "Filters": [
                            {"Name": "TrainingJobName", "Operator": "Contains", "Value": "-1"},
                            {
                                "Name": "TrainingJobStatus",
                                "Operator": "NotEquals",
                                "Value": "Failed",
                            },
                        ]
                    },
                ],
            },
            [11, 4, 1],
        ),
        (
            {
                "NestedFilters": [
                    {
                        "NestedPropertyName": "InputDataConfig",
                        "Filters": [{"Name": "InputDataConfig.ChannelName", "Value": "test"}],
                    }
                ]
            },
            [],
        ),
    ],
    ids=str,
)
def test_search(expression: dict[str, Any], expected: list[int]) -> None:
    arguments = {"Resource": "TrainingJob", "SearchExpression": expression, "MaxResults": 100}
    results = search_jobs(JOBS, arguments)["Results"]
    assert numbers([each["TrainingJob"] for each in results]) == expected

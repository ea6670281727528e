"""Lists and searches: filters, orders, and pages that neither lose nor repeat a job."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from launcher.client.endpoint import ApiError, list_jobs_page, parse_input, search_jobs, to_output

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
        "FinalMetricDataList": [
            {"MetricName": "val:acc.top1", "Value": number * 9.5, "Timestamp": moment},
        ],
        "BillableTimeInSeconds": number,
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
        (
            {
                "NestedFilters": [
                    {
                        "NestedPropertyName": "InputDataConfig",
                        "Filters": [
                            {"Name": "InputDataConfig.ChannelName", "Value": "train"},
                            {"Name": "InputDataConfig.InputMode", "Value": "File"},
                        ],
                    }
                ],
                "Filters": [where("TrainingJobName", "In", "job-1,job-9")],
            },
            [9, 1],
        ),
        ({"Filters": [where("Metrics.val:acc.top1", "GreaterThan", "95")]}, [11]),
        ({"Filters": [where("Metrics.val:acc.top1", "LessThanOrEqualTo", "9.5")]}, [1, 0]),
        ({"Filters": [where("Metrics.val:acc.top1", "Equals", "9.50")]}, [1]),
        ({"Filters": [{"Name": "Metrics.loss", "Operator": "Exists"}]}, []),
        ({"Filters": [where("BillableTimeInSeconds", "GreaterThanOrEqualTo", "9")]}, [11, 10, 9]),
        ({"Filters": [where("HyperParameters.lr", "Equals", "1")]}, [11, 10]),
        ({"Filters": [where("HyperParameters.lr", "Equals", "1.0")]}, [10]),
        ({"Filters": [where("HyperParameters.net.kind", "GreaterThan", "1")]}, []),
        ({"Filters": [where("HyperParameters.net.kind", "Equals", "1")]}, []),
        ({"Filters": [where("CreationTime", "LessThan", "2026-11-22T00:01:00Z")]}, [0]),
        ({"Filters": [where("CreationTime", "LessThan", "2026-11-22T00:01:00")]}, [0]),
        ({"Filters": [where("InputDataConfig.ChannelName", "NotEquals", "train")]}, []),
    ],
    ids=str,
)
def test_search(expression: dict[str, Any], expected: list[int]) -> None:
    arguments = {"Resource": "TrainingJob", "SearchExpression": expression, "MaxResults": 100}
    results = search_jobs(JOBS, arguments)["Results"]
    assert numbers([each["TrainingJob"] for each in results]) == expected


def search(**arguments: Any) -> list[int]:
    """The numbers of the jobs on all pages of a search, three on each."""
    found: list[int] = []
    token: str | None = ""
    while token is not None:
        page = search_jobs(
            JOBS, {"Resource": "TrainingJob", "MaxResults": 3, "NextToken": token, **arguments}
        )
        found += numbers([each["TrainingJob"] for each in page["Results"]])
        token = page["NextToken"]
    return found


@pytest.mark.parametrize(
    "field", ["Metrics.val:acc.top1", "HyperParameters.lr", "BillableTimeInSeconds", "CreationTime"]
)
def test_numbers_are_sorted_as_numbers(field: str) -> None:
    assert search(SortBy=field) == list(range(11, -1, -1))
    assert search(SortBy=field, SortOrder="Ascending") == list(range(12))


def test_jobs_without_the_property_come_last_in_either_order() -> None:
    jobs = [job(1), job(2, FinalMetricDataList=[]), job(3)]
    for order, expected in (("Ascending", [1, 3, 2]), ("Descending", [3, 1, 2])):
        arguments = {
            "Resource": "TrainingJob",
            "SortBy": "Metrics.val:acc.top1",
            "SortOrder": order,
        }
        results = search_jobs(jobs, arguments)["Results"]
        assert numbers([each["TrainingJob"] for each in results]) == expected


def test_numbers_come_before_texts() -> None:
    jobs = [job(1, HyperParameters={"x": "b"}), job(2, HyperParameters={"x": "10"})]
    jobs += [job(3, HyperParameters={"x": "9"}), job(4, HyperParameters={"x": "a"})]
    arguments = {"Resource": "TrainingJob", "SortBy": "HyperParameters.x", "SortOrder": "Ascending"}
    results = search_jobs(jobs, arguments)["Results"]
    assert numbers([each["TrainingJob"] for each in results]) == [3, 2, 4, 1]


#: (a filter, part of the refusal)
BAD_FILTERS = {
    "unknown property": (where("Nonsense", "Equals", "1"), "Unknown property Nonsense"),
    "unknown part": (where("ResourceConfig.Count", "Equals", "1"), "Unknown property"),
    "no key": (where("Metrics.", "Equals", "1"), "Unknown property"),
    "a number that is none": (where("Metrics.loss", "LessThan", "low"), "low, is not a number"),
    "not a number": (where("Metrics.loss", "LessThan", "nan"), "nan, is not a number"),
    "a time that is none": (where("CreationTime", "LessThan", "soon"), "is not an ISO 8601"),
    "order of texts": (where("TrainingJobName", "LessThan", "b"), "not supported for the text"),
    "order of tags": (where("Tags.team", "LessThan", "1"), "not supported for the text"),
    "part of a number": (where("Metrics.loss", "Contains", "1"), "not supported for the number"),
    "list of times": (where("CreationTime", "In", "2026-11-22"), "not supported for the timestamp"),
    "a structure": (where("ResourceConfig", "Equals", "1"), "not supported for the structure"),
    "a text in order": (where("HyperParameters.lr", "LessThan", "b"), "b, is not a number"),
    "no value": ({"Name": "TrainingJobName", "Operator": "Contains"}, "needs a Value"),
}


@pytest.mark.parametrize("case", BAD_FILTERS)
def test_a_bad_filter_is_refused_without_any_job(case: str) -> None:
    bad, message = BAD_FILTERS[case]
    expression = {"Filters": [bad]}
    for each in (expression, {"Operator": "Or", "SubExpressions": [expression]}):
        with pytest.raises(ApiError, match=message) as caught:
            search_jobs([], {"Resource": "TrainingJob", "SearchExpression": each})
        assert caught.value.code == "ValidationException"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"SortBy": "Nonsense"}, "Unknown property Nonsense"),
        ({"SortBy": "OutputDataConfig"}, "which is a structure"),
        (
            {"SearchExpression": {"Filters": [where("TrainingJobName", "Contains", "a")] * 2}},
            "'CONTAINS' operator usage limit of 1 exceeded.",
        ),
        (
            {
                "SearchExpression": {
                    "NestedFilters": [
                        {
                            "NestedPropertyName": "OutputDataConfig",
                            "Filters": [where("OutputDataConfig.KmsKeyId", "Equals", "a")],
                        }
                    ]
                }
            },
            "has no nested properties",
        ),
        (
            {
                "SearchExpression": {
                    "NestedFilters": [
                        {
                            "NestedPropertyName": "InputDataConfig",
                            "Filters": [where("TrainingJobName", "Equals", "a")],
                        }
                    ]
                }
            },
            "is not below InputDataConfig",
        ),
    ],
    ids=["sort by", "sort by a structure", "contains twice", "no list", "not nested"],
)
def test_a_bad_search_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=re.escape(message)):
        search_jobs([], {"Resource": "TrainingJob", **arguments})


@pytest.mark.parametrize("time", [START.timestamp(), START.isoformat(), "2026-11-22T00:00:00Z"])
def test_times_are_numbers_or_iso_8601(time: object) -> None:
    arguments = parse_input("ListTrainingJobs", {"CreationTimeAfter": time})
    assert arguments == {"CreationTimeAfter": START.timestamp()}


@pytest.mark.parametrize("time", ["soon", [1], {}, 1e400, float("nan")], ids=str)
def test_a_time_that_is_none(time: object) -> None:
    with pytest.raises(ApiError, match="is not a time") as caught:
        parse_input("ListTrainingJobs", {"CreationTimeAfter": time})
    assert caught.value.code == "SerializationException"

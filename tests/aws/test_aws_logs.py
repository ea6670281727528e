"""Logs in CloudWatch: every stream, every line, in order, whatever is throttled."""

import time

import pytest
from front import Alter, Answer, Cut, Refuse

from launcher import JobNotFound, Unreachable
from launcher.client.sessions import RetryPolicy
from launcher.client.sessions.aws import transient_errors
from launcher.errors import LogNotFound

GROUP = "/aws/sagemaker/TrainingJobs"
THROTTLED = Refuse("ThrottlingException", "Rate exceeded")


@pytest.fixture
def write(past):
    """Write lines into a stream, which is made for it."""
    logs = past("logs")
    logs.create_log_group(logGroupName=GROUP)

    def put(stream, *lines, start=None):
        start = start or time.time() - 60
        if not logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=stream)[
            "logStreams"
        ]:
            logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        events = [
            {"timestamp": int(start * 1000) + number, "message": line}
            for number, line in enumerate(lines)
        ]
        if events:
            logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)

    return put


@pytest.fixture
def job(past, prepared, session):
    past("sagemaker").create_training_job(**prepared("job-1").request)
    return "job-1"


def texts(session, stream, position=None, **options):
    events, after = session.read_log("job-1", stream, position, **options)
    return [event.text for event in events], after


@pytest.mark.long
def test_a_job_whose_log_is_not_there_yet(session, job, past):
    assert session.log_streams(job) == []
    with pytest.raises(LogNotFound, match="no log stream job-1/algo-1-1"):
        session.read_log(job, "job-1/algo-1-1")
    past("logs").create_log_group(logGroupName=GROUP)
    assert session.log_streams(job) == []
    with pytest.raises(LogNotFound):
        session.read_log(job, "job-1/algo-1-1", "")


def test_logs_of_a_job_that_does_not_exist(session):
    with pytest.raises(JobNotFound):
        session.log_streams("absent")
    with pytest.raises(JobNotFound):
        session.read_log("absent", "absent/algo-1-1")


@pytest.mark.long
def test_more_than_fifty_hosts_in_numeric_order_and_of_this_job_alone(session, front, write, job):
    for number in range(120, 0, -1):
        write(f"job-1/algo-{number}-100")
    write("job-1/algo-2-99")  # the start before, of spot instances that were taken back
    write("job-10/algo-1-100")
    found = session.log_streams(job)
    hosts = [f"algo-{number}" for number in range(1, 121)]
    hosts.insert(1, "algo-2")
    assert [stream.host for stream in found] == hosts
    assert [stream.name for stream in found[:3]] == [
        "job-1/algo-1-100",
        "job-1/algo-2-99",
        "job-1/algo-2-100",
    ]
    assert front.count("DescribeLogStreams") == 3


def test_each_line_is_read_once_page_by_page(session, write, job):
    write("job-1/algo-1-1", *(f"line {number}" for number in range(25)))
    seen, position = [], None
    while True:
        lines, position = texts(session, "job-1/algo-1-1", position, limit=10)
        if not lines:
            break
        assert len(lines) <= 10
        seen += lines
    assert seen == [f"line {number}" for number in range(25)]
    write("job-1/algo-1-1", "one more\n", start=time.time())
    assert texts(session, "job-1/algo-1-1", position)[0] == ["one more"]


def test_a_line_has_its_time(session, write, job):
    start = round(time.time()) - 5.0
    write("job-1/algo-1-1", "line", start=start)
    ((event,), _) = session.read_log(job, "job-1/algo-1-1")
    assert event.time == start


def test_an_empty_page_is_not_the_end(session, front, write, job):
    """CloudWatch may answer with no event and a token that moves, before the last events."""
    write("job-1/algo-1-1", "first", "second")
    _, position = texts(session, "job-1/algo-1-1", limit=1)
    front.meet("GetLogEvents", Alter({"events": [], "nextForwardToken": f"f/{0:056d}"}))
    assert texts(session, "job-1/algo-1-1")[0] == ["second"]
    assert front.count("GetLogEvents") == 3
    assert position == f"f/{0:056d}"


@pytest.mark.long
def test_throttling_loses_nothing(session, front, write, job):
    write("job-1/algo-1-1", "line")
    front.meet("DescribeLogStreams", *[THROTTLED] * 3)
    front.meet("GetLogEvents", *[THROTTLED] * 4)
    (stream,) = session.log_streams(job)
    assert texts(session, stream.name)[0] == ["line"]


def test_lost_answers_are_survived_for_a_while(session, front, write, job, monkeypatch):
    monkeypatch.setattr(
        transient_errors, "READ_POLICY", RetryPolicy(seconds=0.2, first=0.01, longest=0.05)
    )
    write("job-1/algo-1-1", "line")
    front.meet("GetLogEvents", Cut(after=True))
    assert texts(session, "job-1/algo-1-1")[0] == ["line"]
    front.meet("GetLogEvents", *[Cut(after=True)] * 50)
    with pytest.raises(Unreachable):
        session.read_log(job, "job-1/algo-1-1")


@pytest.mark.long
def test_pages_without_an_end_are_given_up(session, front, write, job):
    """The caller looks at the job after a hundred empty pages, and lists of streams are refused."""
    write("job-1/algo-1-1", "line")
    pages = [Answer({"events": [], "nextForwardToken": f"f/{number}"}) for number in range(200)]
    front.meet("GetLogEvents", *pages)
    assert session.read_log(job, "job-1/algo-1-1") == ([], "f/99")
    front.meet("DescribeLogStreams", *[Alter({"nextToken": "again"})] * 200)
    with pytest.raises(Unreachable, match="pages without a new stream"):
        session.log_streams(job)


def test_events_without_a_time_have_that_of_the_one_before(session, front, write, job):
    write("job-1/algo-1-1", "line")
    events = [{"timestamp": 2000, "message": "a"}, {"message": "b"}, {"ingestionTime": 3000}]
    front.meet("GetLogEvents", Answer({"events": events, "nextForwardToken": "f/1"}))
    read, _ = session.read_log(job, "job-1/algo-1-1")
    assert [(event.time, event.text) for event in read] == [(2.0, "a"), (2.0, "b"), (3.0, "")]


def test_a_stream_whose_number_is_endless_is_none_of_a_host(session, front):
    names = [f"job-1/algo-{'9' * 5_000}-1", f"job-1/algo-1-{'9' * 5_000}", "job-1/algo-2-1"]
    front.meet("DescribeLogStreams", Answer({"logStreams": [{"logStreamName": n} for n in names]}))
    assert [stream.host for stream in session.log_streams("job-1")] == ["algo-2"]

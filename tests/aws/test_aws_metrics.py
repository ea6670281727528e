"""The metrics of a job in CloudWatch, from which SDK v2's analytics are made too."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest
from front import Refuse

from launcher import Refused, TrainingJobAnalytics
from launcher.client.jobs import LogLine, MetricReader
from launcher.client.sessions import (
    MATCH_SECONDS,
    NAMESPACE,
    averages,
    host_averages,
    metric_values,
)

#: An hour some days ago: CloudWatch takes no values older than two weeks.
START = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(days=5)
#: More than the 1,440 periods of one answer.
DAYS = 3
#: moto describes every job with one metric of its own.
NAMES = ["loss", "test:dcg"]


@pytest.fixture
def job(past, prepared):
    past("sagemaker").create_training_job(**prepared("job-1").request)
    values = [{"after": 0, "value": 1.0}, {"after": 30, "value": 3.0}, {"after": 60, "value": 0.5}]
    values.append({"after": DAYS * 24 * 3600, "value": 0.25})
    past("cloudwatch").put_metric_data(
        Namespace=NAMESPACE,
        MetricData=[
            {
                "MetricName": "loss",
                "Dimensions": [{"Name": "TrainingJobName", "Value": "job-1"}],
                "Timestamp": START + timedelta(seconds=each["after"]),
                "Value": each["value"],
            }
            for each in values
        ],
    )
    return "job-1"


def read(job, session, **options):
    end = START + timedelta(days=DAYS, minutes=1)
    options = {"start_time": START, "end_time": end, **options}
    return TrainingJobAnalytics(job, NAMES, session, **options).records()


@pytest.mark.long
def test_averages_of_each_minute_of_any_number_of_days(job, session):
    found = [(record.metric_name, record.value, record.host) for record in read(job, session)]
    assert found == [("loss", 2.0, None), ("loss", 0.5, None), ("loss", 0.25, None)]
    first = read(job, session)[0].time
    assert first == START.timestamp()


def test_no_value_is_read_twice_where_one_answer_ends_and_the_next_begins():
    """CloudWatch rounds the start of a question down to the minute, and excludes its end."""
    values = [START + timedelta(minutes=minute) for minute in range(3000)]

    class Rounding:
        @contextmanager
        def client(self, _service):
            yield self

        def get_metric_statistics(self, *, StartTime, EndTime, **_):  # noqa: N803 (AWS)
            since = StartTime.replace(second=0, microsecond=0)
            found = [time for time in values if since <= time < EndTime]
            assert len(found) <= 1440
            return {"Datapoints": [{"Timestamp": time, "Average": 1.0} for time in found]}

    start = START + timedelta(seconds=30.5)
    points = averages(Rounding(), "job-1", "loss", start, start + timedelta(minutes=3000), 60)
    assert [point.time for point in points] == [time.timestamp() for time in values]


@pytest.mark.parametrize(
    ("days", "wanted", "asked"), [(14, 60, 60), (20, 60, 300), (20, 400, 600), (70, 60, 3600)]
)
def test_old_values_are_asked_for_by_a_period_that_cloudwatch_still_has(days, wanted, asked):
    calls = []

    class Recording:
        @contextmanager
        def client(self, _service):
            yield self

        def get_metric_statistics(self, **arguments):
            calls.append(arguments["Period"])
            return {"Datapoints": []}

        def get_metric_data(self, **arguments):
            calls.extend(each["MetricStat"]["Period"] for each in arguments["MetricDataQueries"])
            return {"MetricDataResults": []}

    start = datetime.now(timezone.utc) - timedelta(days=days)
    end = start + timedelta(minutes=10)
    averages(Recording(), "job-1", "loss", start, end, wanted)
    host_averages(Recording(), "job-1", [("algo-1", "CPUUtilization")], start, end, wanted)
    assert calls == [asked, asked]


@pytest.mark.long
def test_a_longer_period_has_fewer_values(job, session):
    values = [record.value for record in read(job, session, period=3600)]
    assert values == [1.5, 0.25]


@pytest.mark.long
def test_throttling_is_waited_for(job, session, front):
    front.meet("GetMetricStatistics", Refuse("ThrottlingException", "Rate exceeded"))
    assert len(read(job, session, source="cloudwatch")) == 3


@pytest.mark.long
def test_lines_that_cannot_be_read_leave_cloudwatch(job, session, front):
    front.meet("DescribeLogStreams", *[Refuse("AccessDeniedException", "no logs for you")] * 9)
    assert len(read(job, session)) == 3
    with pytest.raises(Refused, match="no logs for you"):
        read(job, session, source="logs")


@pytest.mark.parametrize("pattern", ["(", r"\d{99999999999}", "(" * 5_000 + ")" * 5_000])
def test_a_pattern_that_python_has_not_leaves_the_others(pattern):
    defined = [{"Name": "a", "Regex": pattern}, {"Name": "b", "Regex": "b=(.*)"}]
    reader = MetricReader({"AlgorithmSpecification": {"MetricDefinitions": defined}}, own=False)
    line = LogLine(group="train", host="algo-1", text="b=1", time=1.0)
    assert [record.metric_name for record in reader.read(line)] == ["b"]


def test_a_pattern_that_takes_for_ever_leaves_the_others():
    defined = [{"Name": "a", "Regex": "a=((a+)+)$"}, {"Name": "b", "Regex": "b=(.*?) "}]
    reader = MetricReader({"AlgorithmSpecification": {"MetricDefinitions": defined}}, own=False)
    line = LogLine(group="train", host="algo-1", text=f"b=1 a={'a' * 40}!", time=1.0)
    with pytest.warns(UserWarning, match="the metric 'a' is no longer read"):
        assert [record.metric_name for record in reader.read(line)] == ["b"]
    assert [record.metric_name for record in reader.read(line)] == ["b"]


def test_a_timer_of_the_program_goes_on_after_matches():
    rung = []
    before = signal.signal(signal.SIGVTALRM, lambda *_: rung.append(1))
    timer = signal.setitimer(signal.ITIMER_VIRTUAL, 0.3)
    try:
        assert metric_values(LOSS, "loss=0.5") == [0.5]
        deadline = time.process_time() + 30
        while not rung and time.process_time() < deadline:
            pass  # the timers are of the CPU time of this process
        assert rung
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
        signal.setitimer(signal.ITIMER_VIRTUAL, *timer)


LOSS = re.compile("loss=([0-9.]+)")
#: Matches for a second, a quarter of a second for each line, and prints what was found.
MATCHES = """\
import re, time
from launcher.client.sessions.metric_match import metric_values
pattern, line = re.compile("a=(?:(?:a+)+b|.*?([0-9]+))"), "a=" + "a" * 22 + " 7"
print("begun", flush=True)
print({tuple(metric_values(pattern, line)) for _ in range(5)}, flush=True)
"""


def test_a_pause_of_the_machine_drops_no_metric():
    with subprocess.Popen(
        [sys.executable, "-c", MATCHES], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * MATCH_SECONDS)  # the pause of the machine
            process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "{(7.0,)}\n"


ENDS = """
import re, time
from launcher.client.sessions.metric_match import metric_values

class Slow:  # to be ended, when Python handles no signals any more
    def __del__(self, clock=time.process_time):
        until = clock() + 0.5
        while clock() < until:
            pass

slow = Slow()
assert metric_values(re.compile("a=(.)"), "a=1") == [1.0]
"""


def test_a_program_may_end_right_after_a_match():
    assert subprocess.run([sys.executable, "-c", ENDS], check=False).returncode == 0


def test_a_match_costs_little_more_than_that_of_its_pattern():
    lines = ["step 12 loss=0.125"] * 20_000

    def seconds(find):
        began = time.thread_time()
        for line in lines:
            find(line)
        return time.thread_time() - began

    plain = min(seconds(lambda line: [float(m[1]) for m in LOSS.finditer(line)]) for _ in range(3))
    limited = min(seconds(lambda line: metric_values(LOSS, line)) for _ in range(3))
    assert limited < 4 * plain


@pytest.mark.long
def test_a_job_that_names_no_algorithm_has_its_metrics(job, session, front):
    def without(call, answer):
        status, headers, content = answer
        fields = json.loads(content) if call.operation == "DescribeTrainingJob" else {}
        if fields.pop("AlgorithmSpecification", None):
            content = json.dumps(fields).encode()
        return status, headers, content

    front.rewrite = without
    assert len(read(job, session)) == 3

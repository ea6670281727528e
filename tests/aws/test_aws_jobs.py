"""A job is created exactly once, whatever happens to the answers; then described and stopped."""

import pytest
from front import Alter, Cut, Hold, Page, Refuse

from launcher import AwsSession, CloudError, CredentialsExpired, JobNotFound, Refused, Unreachable
from launcher.client.sessions import Creation, RetryPolicy, matches_request
from launcher.client.sessions.aws import caller_identity, clients, transient_errors

THROTTLED = Refuse("ThrottlingException", "Rate exceeded")
SHORT = RetryPolicy(seconds=0.2, first=0.01, longest=0.05)


@pytest.fixture
def request_(prepared, session):
    """A request whose bucket is there."""
    submission = prepared("job-1")
    session._default_bucket.ensure()
    return dict(submission.request)


def created(front):
    """How many calls made a job at moto."""
    return sum(
        call.fault is None or (isinstance(call.fault, Cut) and call.fault.after)
        for call in front.of("CreateTrainingJob")
    )


# Created once -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="at once"),
        pytest.param((THROTTLED, THROTTLED), id="throttled twice"),
        pytest.param((Refuse("InternalFailure", "", 500),), id="AWS broke"),
        pytest.param((Cut(after=False),), id="cut before AWS has heard it"),
        pytest.param((Cut(after=True),), id="cut after AWS has made the job"),
        pytest.param((THROTTLED, Cut(after=True)), id="throttled, then cut"),
        pytest.param((Page("<html>Sign in to the hotel</html>"),), id="a hotel's page"),
        pytest.param((Page(""), Page('{"TrainingJobA')), id="nothing, then half an answer"),
        pytest.param((Page("busy", 529), Page("", 408)), id="statuses without a code"),
    ],
)
def test_a_job_is_created_exactly_once(session, front, request_, faults):
    front.meet("CreateTrainingJob", *faults)
    answer = session.create_training_job(**request_)
    assert answer["TrainingJobArn"].endswith(":training-job/job-1")
    assert created(front) == 1
    assert session.describe_training_job(TrainingJobName="job-1")["TrainingJobName"] == "job-1"


def test_a_proxy_that_closes_a_connection_is_asked_again(
    session, front, request_, moto_address, monkeypatch
):
    session.create_training_job(**request_)
    with monkeypatch.context() as proxy:
        proxy.setenv("AWS_ENDPOINT_URL", moto_address)
        for name, value in (("HTTP_PROXY", front.address), ("NO_PROXY", "")):
            proxy.setenv(name, value)
            proxy.setenv(name.lower(), value)
        front.meet("DescribeTrainingJob", Cut(after=False), Cut(after=True))
        described = AwsSession().describe_training_job(TrainingJobName="job-1")
    assert described["TrainingJobName"] == "job-1"
    assert front.count("DescribeTrainingJob") == 3


@pytest.mark.parametrize(
    "body", ["<html>Sign in to the hotel</html>", "", '{"TrainingJobN', "null"]
)
def test_what_is_no_answer_of_aws_is_not_taken_for_one(session, front, monkeypatch, body):
    """Nor for a job of that name, nor for an empty list."""
    monkeypatch.setattr(transient_errors, "READ_POLICY", SHORT)
    for operation in ("DescribeTrainingJob", "ListTrainingJobs", "DescribeLogStreams"):
        front.meet(operation, *[Page(body)] * 50)
    with pytest.raises(Unreachable, match="what answers is not AWS"):
        session.describe_training_job(TrainingJobName="job-1")
    with pytest.raises(Unreachable, match="ListTrainingJobs"):
        session.list_training_jobs()
    with pytest.raises(Unreachable, match="AWS_ENDPOINT_URL"):
        session.log_streams("job-1")


def with_metric(left):
    return {"AlgorithmSpecification": {"TrainingInputMode": "File", "MetricDefinitions": [left]}}


MANY = {"InstanceType": "ml.m5.large", "InstanceCount": 2**31}
MANY_OF_A_GROUP = {"InstanceGroupName": "a", "InstanceCount": 2**31}
NO_METRIC = r"has no AlgorithmSpecification.MetricDefinitions\[\]"
#: A follower would ask for ever whether a job of an unknown status has ended.
NOT_OF_AWS = {
    "a word for an ARN": ({"TrainingJobArn": "x"}, "has the ARN '"),
    "a URI for an ARN": ({"TrainingJobArn": "s3://b"}, "has the ARN '"),
    "a terminal's sequence": ({"TrainingJobArn": "\x1b[2J"}, "has the ARN '"),
    "a role's ARN": ({"TrainingJobArn": "arn:aws:iam::123456789012:role/R"}, "has the ARN '"),
    "a status": ({"TrainingJobStatus": "Done"}, "has the status 'Done'"),
    "billions of hosts": ({"ResourceConfig": MANY}, "has 2,147,483,648 instances"),
    "billions in a group": (
        {"ResourceConfig": {"InstanceGroups": [MANY_OF_A_GROUP]}},
        "has 2,147,483,648 instances",
    ),
    "a metric without a pattern": (with_metric({"Name": "loss"}), NO_METRIC),
    "a metric without a name": (with_metric({"Regex": "loss=(.*)"}), NO_METRIC),
}


@pytest.mark.parametrize(("fields", "said"), NOT_OF_AWS.values(), ids=NOT_OF_AWS)
def test_a_description_that_is_not_of_aws(session, front, request_, monkeypatch, fields, said):
    session.create_training_job(**request_)
    monkeypatch.setattr(transient_errors, "READ_POLICY", SHORT)
    front.meet("DescribeTrainingJob", *[Alter(fields)] * 50)
    with pytest.raises(Unreachable, match=f"DescribeTrainingJob {said}") as caught:
        session.describe_training_job(TrainingJobName="job-1")
    assert "\x1b" not in str(caught.value)


def test_a_job_that_is_seen_late_is_ours_all_the_same(session, front, request_):
    front.meet("CreateTrainingJob", Cut(after=True), Refuse("ResourceInUse"))
    front.meet(
        "DescribeTrainingJob", Refuse("ValidationException", "Requested resource not found.")
    )
    assert session.create_training_job(**request_)["TrainingJobArn"].endswith("/job-1")
    assert (created(front), front.count("CreateTrainingJob")) == (1, 2)


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(
    session, front, request_, monkeypatch
):
    monkeypatch.setattr(clients, "_READ_SECONDS", 1)
    front.meet("CreateTrainingJob", Hold())
    session.create_training_job(**request_)
    assert front.count("CreateTrainingJob") == 1


@pytest.mark.parametrize(
    "text",
    [
        "Could not assume role arn:aws:iam::123456789012:role/Training. Please ensure that ...",
        "Access denied to OutputDataConfig S3 bucket: s3://b. Please ensure ...",
    ],
)
def test_a_role_that_is_not_known_everywhere_yet_is_waited_for(
    session, front, told, request_, text
):
    front.meet("CreateTrainingJob", Refuse("ValidationException", text))
    session.create_training_job(**request_)
    assert created(front) == 1
    (line,) = told
    assert text in line
    assert "retrying in" in line


@pytest.mark.parametrize(
    ("fault", "within"),
    [
        pytest.param(
            Refuse("AccessDeniedException", "not authorized to perform: iam:PassRole on R"),
            "pass this role to SageMaker",
            id="pass role",
        ),
        pytest.param(
            Refuse(
                "AccessDeniedException", "not authorized to perform: sagemaker:CreateTrainingJob"
            ),
            "your identity may not create training jobs",
            id="create",
        ),
        pytest.param(Refuse("ResourceLimitExceeded"), "servicequotas", id="quota"),
        pytest.param(Refuse("ResourceInUse"), "use another name", id="name"),
        pytest.param(Refuse("ValidationException", "1 validation error"), "1 valid", id="invalid"),
    ],
)
def test_a_permanent_error_is_raised_at_once(session, front, request_, fault, within):
    front.meet("CreateTrainingJob", fault)
    with pytest.raises(Refused, match=within) as refused:
        session.create_training_job(**request_)
    assert (refused.value.code, refused.value.request_id) == (fault.code, "request-1")
    assert fault.code in str(refused.value)
    assert front.count("CreateTrainingJob") == 1


def test_the_job_of_somebody_else_is_not_taken_for_ours(session, front, past, request_):
    past("sagemaker").create_training_job(
        **{**request_, "OutputDataConfig": {"S3OutputPath": "s3://elsewhere"}}
    )
    front.meet("CreateTrainingJob", Cut(after=False))
    with pytest.raises(Refused, match="used for another job") as refused:
        session.create_training_job(**request_)
    assert refused.value.code == "ResourceInUse"
    assert created(front) == 0


@pytest.mark.long
def test_after_an_outage_the_error_explains_how_to_find_the_job(session, front, request_):
    front.meet("CreateTrainingJob", *[Cut(after=True)] * 99)
    front.meet("DescribeTrainingJob", *[Cut(after=False)] * 99)
    with pytest.raises(Unreachable, match="job job-1 may have been created"):
        Creation(session._clients, request_, print).run(RetryPolicy(seconds=2))


@pytest.mark.parametrize(
    ("change", "is_ours"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"TrainingJobStatus": "InProgress"}, True, id="more fields"),
        pytest.param({"RoleArn": "another"}, False, id="another role"),
        pytest.param({"Environment": {"LAUNCHER_TOKEN": "another"}}, False, id="another token"),
        pytest.param(
            {"Environment": {"LAUNCHER_TOKEN": "secret", "A": "1"}}, True, id="more variables"
        ),
        pytest.param(
            {"Groups": [{"Name": "a", "Count": 1}, {"Name": "b"}]}, False, id="more groups"
        ),
        pytest.param({"Groups": [{"Name": "a", "Count": 2}]}, False, id="another count"),
    ],
)
def test_how_a_job_is_recognised(change, is_ours):
    asked = {
        "RoleArn": "role",
        "Environment": {"LAUNCHER_TOKEN": "secret"},
        "Groups": [{"Name": "a", "Count": 1}],
        "Tags": [{"Key": "never", "Value": "described"}],
    }
    described = {**{key: value for key, value in asked.items() if key != "Tags"}, **change}
    assert matches_request(asked, described) is is_ours


# Described, stopped, listed ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["describe_training_job", "stop_training_job"])
def test_a_name_that_aws_does_not_know(session, front, method):
    operation = "".join(word.capitalize() for word in method.split("_"))
    front.meet(operation, Refuse("ValidationException", "Requested resource not found."))
    with pytest.raises(JobNotFound, match="'absent' in eu-west-1: `launcher list --cloud`"):
        getattr(session, method)(TrainingJobName="absent")


def test_the_token_is_never_shown(session, front, request_):
    """Moto describes no Environment; SageMaker does."""
    session.create_training_job(**request_)
    variables = {"LAUNCHER_TOKEN": "secret", "A": "1"}
    front.meet("DescribeTrainingJob", Alter({"Environment": variables}))
    shown = session.describe_training_job(TrainingJobName="job-1")
    assert shown["Environment"] == {"LAUNCHER_TOKEN": "<redacted>", "A": "1"}


def test_stopping_a_job_that_has_ended_is_no_error(session, front, request_):
    session.create_training_job(**request_)
    text = "The request was rejected because the training job is in status Completed."
    front.meet("StopTrainingJob", Refuse("ValidationException", text))
    session.stop_training_job(TrainingJobName="job-1")
    assert front.count("StopTrainingJob") == 1


def test_a_job_that_continues_unstopped_is_an_error(session, front, request_):
    session.create_training_job(**request_)
    front.meet("StopTrainingJob", Refuse("ValidationException", "something else"))
    front.meet("DescribeTrainingJob", Alter({"TrainingJobStatus": "InProgress"}))
    with pytest.raises(Refused, match="something else"):
        session.stop_training_job(TrainingJobName="job-1")


def test_what_else_a_stop_meets_is_an_error(session, front, request_):
    session.create_training_job(**request_)
    front.meet("StopTrainingJob", Refuse("AccessDeniedException", "sagemaker:StopTrainingJob"))
    with pytest.raises(Refused, match="StopTrainingJob"):
        session.stop_training_job(TrainingJobName="job-1")


@pytest.mark.long
def test_pages_of_jobs_and_their_filters(session, front, past, request_):
    direct = past("sagemaker")
    for number in range(120):
        direct.create_training_job(**{**request_, "TrainingJobName": f"many-{number}"})
    direct.create_training_job(**{**request_, "TrainingJobName": "other"})

    def names(**filters):
        found = session.list_training_jobs(**filters)["TrainingJobSummaries"]
        return {entry["TrainingJobName"] for entry in found}

    assert len(names()) == 121
    assert front.count("ListTrainingJobs") == 2
    assert names(NameContains="many") == {f"many-{number}" for number in range(120)}
    assert len(names(limit=7)) == 7
    assert len(names(limit=110)) == 110
    assert names(StatusEquals="Failed") == set()


# AWS that is slow, silent or unsure ---------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "fault", [Cut(after=False), Hold()], ids=["connections are reset", "no answer comes"]
)
def test_lost_answers_of_a_read_are_reported_after_the_time(session, front, monkeypatch, fault):
    monkeypatch.setattr(clients, "_READ_SECONDS", 1)
    monkeypatch.setattr(transient_errors, "READ_POLICY", SHORT)
    front.meet("DescribeTrainingJob", *[fault] * 50)
    with pytest.raises(Unreachable, match="check the network"):
        session.describe_training_job(TrainingJobName="job-1")
    assert front.count("DescribeTrainingJob") >= 2


@pytest.mark.long
def test_a_lost_answer_of_a_read_is_survived(session, front, request_):
    session.create_training_job(**request_)
    front.meet("DescribeTrainingJob", Cut(after=True), Page("<html>"), Page('{"a": []}'))
    assert session.describe_training_job(TrainingJobName="job-1")["TrainingJobName"] == "job-1"


def test_without_a_connection_nobody_waits(session, front, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    began = []
    monkeypatch.setattr(transient_errors.time, "sleep", began.append)
    with pytest.raises(Unreachable, match="start `launcher endpoint`"):
        session.list_training_jobs()
    assert began == []


def test_expired_credentials_are_renewed_by_another_program(front, tmp_path, credentials):
    keys = tmp_path / "keys"

    def write(key):
        keys.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = made-up\n")

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        credentials.delenv(name)
    credentials.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    write("AKIAOLD")
    front.meet(
        "ListTrainingJobs", Refuse("ExpiredTokenException", "The security token ... expired")
    )
    session = AwsSession()
    with pytest.raises(CredentialsExpired, match="aws sso login"):
        session.list_training_jobs()
    write("AKIANEW")
    session.list_training_jobs()
    old, new = front.of("ListTrainingJobs")
    assert "AKIAOLD" in old.headers["Authorization"]
    assert "AKIANEW" in new.headers["Authorization"]


def test_an_endpoint_that_is_not_there_is_waited_for_aloud(credentials, monkeypatch):
    credentials.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(caller_identity, "_RETRY_POLICY", RetryPolicy(seconds=2))
    told = []
    with pytest.raises(Unreachable, match="start `launcher endpoint`"):
        AwsSession("eu-west-1", notify=told.append).role_arn("Training")
    assert all("retrying in" in line for line in told)
    assert told


def test_what_boto_does_not_send_is_one_line(session):
    with pytest.raises(CloudError) as raised:
        session.describe_training_job(TrainingJobName=None)
    assert "TrainingJobName" in raised.value.headline


def test_without_credentials(front, credentials):
    credentials.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(CloudError, match="aws configure"):
        AwsSession().list_training_jobs()
    assert front.calls == []

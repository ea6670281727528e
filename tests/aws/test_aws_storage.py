"""Objects in S3: stored whole, copied where the same bytes are, fetched without half files."""

import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_kinds import Changed
from front import Cut, Refuse
from stored_bytes import stored_bytes

from launcher import JobSpec, Refused, Session, SpecError, Unreachable
from launcher.client.request import SourceTree
from launcher.client.sessions import RetryPolicy, with_fetched_source
from launcher.client.sessions.aws import transient_errors
from launcher.client.submit import send

BUCKET = "of-the-team"
SHARED = f"s3://{BUCKET}/bundles/hash"


@pytest.fixture
def bucket(past):
    past("s3").create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    return past("s3")


def content(bucket, key):
    return bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read()


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(0, id="empty"),
        pytest.param(1000, id="small"),
        pytest.param(20 * 2**20, id="in several parts"),
    ],
)
def test_what_was_stored_comes_back(session, bucket, tmp_path, size):
    data = bytes(range(250)) * (size // 250)
    session.upload(data, f"s3://{BUCKET}/some/key")
    told = []
    target = tmp_path / "file"
    session.download(f"s3://{BUCKET}/some/key", target, lambda *counts: told.append(counts))
    assert target.read_bytes() == data
    assert told[-1] == (len(data), len(data))
    assert sorted(told) == told


def test_no_half_file_is_left(session, bucket, front, tmp_path):
    session.upload(b"content", f"s3://{BUCKET}/key")
    target = tmp_path / "file"
    target.write_text("what was there before")
    front.meet("GET", *[Refuse("AccessDenied", "", 403)] * 5)
    with pytest.raises(Refused, match=f"s3://{BUCKET}/key"):
        session.download(f"s3://{BUCKET}/key", target)
    assert target.read_text() == "what was there before"
    assert list(tmp_path.iterdir()) == [target]


def test_an_object_that_is_not_there_is_named(session, bucket, tmp_path):
    with pytest.raises(Refused, match=f"s3://{BUCKET}/absent"):
        session.download(f"s3://{BUCKET}/absent", tmp_path / "file")


def test_a_bucket_that_is_not_there_is_named(session):
    with pytest.raises(Refused, match="s3://no-such-bucket/key"):
        session.upload(b"", "s3://no-such-bucket/key")


@pytest.mark.parametrize("uri", ["s3://of the team/key", "s3://of-the-team"])
def test_a_name_that_s3_cannot_have_is_not_blamed_on_the_configuration(session, tmp_path, uri):
    with pytest.raises(Refused, match="Parameter validation failed") as caught:
        session.download(uri, tmp_path / "file")
    assert "fix: correct this name or URI" in str(caught.value)
    assert f"object: {uri}" in str(caught.value)


def test_a_cut_connection_is_tried_again(session, bucket, front, tmp_path):
    front.meet("PUT", Cut(after=False))
    session.upload(b"content", f"s3://{BUCKET}/key")
    front.meet("GET", Cut(after=True))
    session.download(f"s3://{BUCKET}/key", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"content"


# The same content again ---------------------------------------------------------------------------


def test_a_damaged_download_is_tried_again(session, bucket, front, tmp_path, monkeypatch):
    def reverse(_call, answer):
        status, headers, body = answer
        return status, headers, body[::-1]

    session.upload(b"content", f"s3://{BUCKET}/key")
    front.meet("GET", Changed(reverse))
    session.download(f"s3://{BUCKET}/key", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"content"

    monkeypatch.setattr(transient_errors, "READ_POLICY", RetryPolicy(seconds=0.0))
    front.meet("GET", Changed(reverse))
    with pytest.raises(Unreachable, match="GetObject is damaged") as caught:
        session.download(f"s3://{BUCKET}/key", tmp_path / "other")
    assert "fix: check the network" in str(caught.value)
    assert f"object: s3://{BUCKET}/key" in str(caught.value)


def test_the_bytes_of_a_large_object_are_counted_while_it_is_stored(session, bucket):
    size, counted = 20 << 20, []
    session.upload(bytes(size), f"s3://{BUCKET}/large", progress=lambda *each: counted.append(each))
    assert len(content(bucket, "large")) == size
    assert counted[-1] == (size, size)
    assert len(counted) > 2
    assert counted == sorted(counted)


def upload(session, data, job):
    session.upload(data, f"s3://{BUCKET}/{job}/bundle", shared=SHARED)


def test_the_same_content_travels_once(session, bucket, front):
    data = b"bundle" * 1000
    upload(session, data, "job-1")
    sent = len(front.of("PUT"))
    upload(session, data, "job-2")
    assert sent == 1
    assert len(front.of("PUT")) == 1
    assert content(bucket, "job-1/bundle") == content(bucket, "job-2/bundle") == data


def test_content_that_somebody_changed_is_not_used(session, bucket):
    bucket.put_object(Bucket=BUCKET, Key="bundles/hash", Body=b"something else")
    upload(session, b"bundle", "job-1")
    assert content(bucket, "job-1/bundle") == content(bucket, "bundles/hash") == b"bundle"


def test_what_may_not_be_copied_is_sent(session, bucket, front):
    front.meet("COPY", *[Refuse("AccessDenied", "", 403)] * 2)
    upload(session, b"bundle", "job-1")
    assert content(bucket, "job-1/bundle") == b"bundle"


def test_the_key_encrypts_what_is_sent_and_what_is_copied(session, bucket):
    key = "arn:aws:kms:eu-west-1:123456789012:key/one"
    for job in ("job-1", "job-2"):
        session.upload(b"bundle", f"s3://{BUCKET}/{job}/bundle", shared=SHARED, kms_key=key)
    for name in ("job-1/bundle", "job-2/bundle", "bundles/hash"):
        head = bucket.head_object(Bucket=BUCKET, Key=name)
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", key)


@pytest.mark.long
def test_the_bundle_is_named_by_its_content(session, front, past, prepared):
    """Two jobs of the same code: the second sends its small files alone."""
    first, second = prepared(), prepared()
    send(first, session)
    before = len(front.calls)
    send(second, session)
    bundles = [data for uri, data in stored_bytes(second).items() if uri.endswith("bundle.tar.gz")]
    sent = [call for call in front.calls[before:] if call.operation == "PUT"]
    assert sum(len(call.body) for call in sent) < 4000 < len(bundles[0])
    keys = [
        entry["Key"]
        for entry in past("s3").list_objects_v2(Bucket="sagemaker-eu-west-1-123456789012")[
            "Contents"
        ]
    ]
    assert f"bundles/{hashlib.sha256(bundles[0]).hexdigest()}.tar.gz" in keys


def test_a_folder_of_a_notebook_is_stored_whole(aws, tmp_path):
    for name in ("a.txt", "deeper/b.txt"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    session = Session()
    uri = session.upload_data(tmp_path / "data", key_prefix="/numbers/")
    assert uri == f"s3://{session.default_bucket()}/numbers"
    assert session.upload_data(str(tmp_path / "data" / "a.txt")) == (
        f"s3://{session.default_bucket()}/data/a.txt"
    )
    listed = aws("s3").list_objects_v2(Bucket=session.default_bucket())["Contents"]
    assert {each["Key"] for each in listed} == {
        "numbers/a.txt",
        "numbers/deeper/b.txt",
        "data/a.txt",
    }
    with pytest.raises(SpecError, match="there is nothing at"):
        session.upload_data(tmp_path / "absent")


@pytest.mark.long
def test_data_is_stored_below_the_prefix_of_the_default_bucket(aws, tmp_path):
    (tmp_path / "a.txt").touch()
    session = Session(default_bucket_prefix="team")
    home = f"s3://{session.default_bucket()}"
    assert session.default_location() == f"{home}/team"
    assert session.upload_data(tmp_path / "a.txt") == f"{home}/team/data/a.txt"
    bucket = session.default_bucket()
    assert session.upload_data(tmp_path / "a.txt", bucket) == f"{home}/data/a.txt"


class Unpacked:
    """An archive of source in S3."""

    def __init__(self, session):
        self.session, self.uri = session, f"s3://{session.default_bucket()}/mine/source.tar.gz"

    def store(self, *members):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for member, content in members:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        self.session.upload(packed.getvalue(), self.uri)

    def spec(self):
        return JobSpec(entry_point="train.py", source_dir=self.uri, instance_type="local")


@pytest.mark.long
def test_a_source_in_s3_is_fetched_once_for_its_content(aws, tmp_path):
    archive = Unpacked(Session())
    archive.store((tarfile.TarInfo("train.py"), b"print(1)"), (tarfile.TarInfo("lib/a.py"), b""))
    first = with_fetched_source(archive.spec(), archive.session, tmp_path)
    again = with_fetched_source(archive.spec(), archive.session, tmp_path)
    assert first == again
    assert {file.path for file in SourceTree(first).files} == {"train.py", "lib/a.py"}
    assert [folder.name for folder in tmp_path.iterdir()] == [Path(first.source_dir).name]


def link(name):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/hosts"
    return member


@pytest.mark.long
@pytest.mark.parametrize(
    ("member", "says"),
    [
        (tarfile.TarInfo("../train.py"), "is outside of it"),
        (tarfile.TarInfo("/train.py"), "is outside of it"),
        (link("train.py"), "is neither a file nor a folder"),
    ],
)
def test_a_source_that_leaves_its_folder_is_refused(aws, tmp_path, member, says):
    archive = Unpacked(Session())
    archive.store((member, b""))
    with pytest.raises(SpecError, match=says):
        with_fetched_source(archive.spec(), archive.session, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_source_in_s3_that_was_not_fetched_is_refused_with_a_fix(aws, tmp_path):
    with pytest.raises(SpecError, match="--resolve"):
        _ = SourceTree(Unpacked(Session()).spec()).files


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="a proxy's page"),
        pytest.param([("ETag", f'"{hashlib.md5(b"other").hexdigest()}"')], id="of other bytes"),
    ],
)
def test_an_upload_that_s3_has_not_confirmed_is_none(session, bucket, front, monkeypatch, headers):
    """A page with status 200 is survived once; where it stays, the upload fails."""
    stored = Stored(headers)
    front.meet("PUT", stored)
    session.upload(b"content", f"s3://{BUCKET}/key")
    assert content(bucket, "key") == b"content"
    monkeypatch.setattr(transient_errors, "READ_POLICY", RetryPolicy(seconds=0.1, first=0.01))
    front.meet("PUT", *[stored] * 50)
    with pytest.raises(Unreachable, match=f"PutObject has(.|\n)*s3://{BUCKET}/lost"):
        session.upload(b"content", f"s3://{BUCKET}/lost")


@dataclass(frozen=True)
class Stored:
    """Say that an object is stored, which is not passed on."""

    headers: list

    def respond(self, handler, _call):
        handler.answer(200, self.headers, b"")

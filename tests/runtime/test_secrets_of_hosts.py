"""Secrets of a host: read when it starts, given to its programs, and kept out of its log."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hosts import Hosts
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import LauncherError
from launcher.runtime import (
    RELATIVE_URI,
    AwsCredentials,
    container_credentials,
    read_secrets,
    signed_headers,
)
from launcher.shared import MaskedStream, SecretMask

VALUE = 'hunter2-"very"-secret'
KEYS = {"AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "made-up", "Token": "a-token"}


class Metadata(ThreadingHTTPServer):
    """What every container of AWS has at 169.254.170.2."""

    asked: list[str]
    failures = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Metadata

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        failing = len(self.server.asked) <= self.server.failures
        self.send_response(503 if failing else 200)
        self.end_headers()
        self.wfile.write(json.dumps({} if failing else KEYS).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with Metadata(("127.0.0.1", 0), Answer) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def make_secret(aws: Callable[..., object]) -> Callable[..., str]:
    """Make a secret in Secrets Manager, a real server's; return its ARN."""

    def make(**value: object) -> str:
        client = boto3.client("secretsmanager")
        return str(client.create_secret(Name="training/token", **value)["ARN"])

    return make


def container(moto_address: str, **sources: str) -> dict[str, str]:
    """The environment of a container on AWS."""
    return {
        RELATIVE_URI: "/v2/credentials/1",
        "AWS_ENDPOINT_URL_SECRETS_MANAGER": moto_address,
        **{f"LAUNCHER_SECRET_{name}": source for name, source in sources.items()},
    }


# Reading ----------------------------------------------------------------------------------------


def test_a_host_reads_its_secrets_with_the_credentials_of_its_container(
    make_secret: Callable[..., str], moto_address: str, metadata: Metadata
) -> None:
    environment = container(moto_address, TOKEN=make_secret(SecretString=VALUE))
    metadata.failures = 2
    read_secrets(environment, metadata.origin)
    assert environment["TOKEN"] == VALUE
    assert metadata.asked == ["/v2/credentials/1"] * 3


def test_a_value_that_the_platform_has_set_is_kept(metadata: Metadata) -> None:
    environment = {"LAUNCHER_SECRET_TOKEN": "env", "TOKEN": VALUE}
    read_secrets(environment, metadata.origin)
    assert environment["TOKEN"] == VALUE
    assert metadata.asked == []


ARN = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:training/token-AbCdEf"


def test_what_is_wrong_with_a_secret_is_said_with_its_name(
    make_secret: Callable[..., str], moto_address: str, metadata: Metadata
) -> None:
    refusals = {
        ARN: r"the secret TOKEN \(arn:\S+\) cannot be read: ResourceNotFoundException: .*\n"
        "  fix: give the ARN of a secret that exists",
        make_secret(SecretBinary=b"\x01\x02"): "holds bytes; a variable holds text",
        "env": "this platform did not pass it on",
    }
    for source, words in refusals.items():
        with pytest.raises(LauncherError, match=words):
            read_secrets(container(moto_address, TOKEN=source), metadata.origin)


@pytest.mark.parametrize(
    ("length", "body"),
    [
        pytest.param(1000, b'{"SecretString": "', id="cut"),
        pytest.param(2, b"[]", id="a list"),
        pytest.param(10**5, b"[" * 10**5, id="deep brackets"),
    ],
)
def test_a_damaged_answer_is_asked_for_again(length: int, body: bytes) -> None:
    good = json.dumps({"SecretString": VALUE, **KEYS}).encode()
    answers = [(length, body), (len(good), good)] * 2

    class Damaged(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            size, content = answers.pop(0)
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Damaged) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        environment = container(origin, TOKEN=ARN)
        read_secrets(environment, origin)
        server.shutdown()
    assert environment["TOKEN"] == VALUE
    assert not answers


def test_a_short_value_is_refused_as_it_could_not_be_redacted(
    make_secret: Callable[..., str], moto_address: str, metadata: Metadata
) -> None:
    environment = container(moto_address, TOKEN=make_secret(SecretString="abc"))
    with pytest.raises(LauncherError, match="fewer than 4 characters"):
        read_secrets(environment, metadata.origin)
    assert "TOKEN" not in environment


def test_a_container_without_credentials_says_which_variable_is_missing() -> None:
    with pytest.raises(LauncherError, match=f"{RELATIVE_URI} is not set"):
        container_credentials({})


@pytest.mark.parametrize("token", [None, "a-token"], ids=["permanent", "temporary"])
def test_the_signature_is_the_one_that_botocore_makes(
    token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, body = "https://secretsmanager.eu-west-1.amazonaws.com/", b'{"SecretId": "x"}'
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "a.B"}
    theirs = AWSRequest("POST", url, headers=headers, data=body)
    SigV4Auth(Credentials("AKIA", "key", token), "secretsmanager", "eu-west-1").add_auth(theirs)
    stamp = datetime.strptime(theirs.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
    ours = signed_headers(
        url,
        body,
        headers,
        AwsCredentials(key_id="AKIA", secret_key="key", token=token),
        region="eu-west-1",
        service="secretsmanager",
        now=stamp.replace(tzinfo=timezone.utc),
    )
    assert ours["Authorization"] == theirs.headers["Authorization"]
    assert ours.get("X-Amz-Security-Token") == token


# A host -----------------------------------------------------------------------------------------

PRINTS = """\
import json, os, sys
from launcher.runtime.host.event_log import emit
value = os.environ["TOKEN"]
print("plain", value)
print(json.dumps({"in json": value}))
emit("told", value=value)
print("length", len(value))
sys.stdout.write("left open " + value)
sys.stdout.flush()
raise ValueError("refused " + value)
"""


def test_a_host_gives_its_programs_the_value_and_redacts_it(
    make_hosts: Callable[..., Hosts],
    make_secret: Callable[..., str],
    moto_address: str,
    metadata: Metadata,
) -> None:
    variables = container(moto_address, TOKEN=make_secret(SecretString=VALUE))
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"{metadata.origin}/full"
    del variables[RELATIVE_URI]  # its address is fixed
    hosts = make_hosts({"train.py": PRINTS}, environment=variables)
    hosts.fail()
    host = hosts["algo-1"]
    assert "\nplain ***\n" in host.output
    assert f"\nlength {len(VALUE)}\n" in host.output
    assert '\n{"in json": "***"}\n' in host.output
    assert [event["value"] for event in host.events("told")] == ["***"]
    assert "ValueError: refused ***" in str(host.failure)
    for text in (host.output, str(host.failure)):
        assert "hunter2" not in text


IN_PARTS = """\
import json, os, sys, time
from pathlib import Path
value = os.environ.pop("TOKEN")
failure = Path(os.environ["SM_OUTPUT_DIR"], "failure")
for part in ("bearer ", value[:12], None, value[12:], " or ", value[:9]):
    if part is None:
        time.sleep(1.2)  # two reports of an open line
    else:
        os.write(1, part.encode())
failure.write_text(f"my own reason: {value} was refused")
os.write(2, value[9:].encode() + b"\\n")
raise ValueError("x" * 8180 + value)
"""


def test_no_part_of_a_secret_is_reported_or_is_in_a_reason_of_the_users(
    make_hosts: Callable[..., Hosts],
) -> None:
    variables = {"LAUNCHER_SECRET_TOKEN": "env", "TOKEN": "s3cr3t-of-20-letters"}
    hosts = make_hosts({"train.py": IN_PARTS}, environment=variables)
    hosts.fail()
    host = hosts["algo-1"]
    assert [event["text"] for event in host.events("progress")] == ["bearer ", ""]
    assert "\nbearer *** or ***\n" in host.output
    assert host.failure == "my own reason: *** was refused"
    for text in (host.output, host.failure):
        assert "s3cr3t" not in text


def test_a_host_whose_secret_cannot_be_read_fails_with_the_reason(
    make_hosts: Callable[..., Hosts], moto_address: str, aws: object, metadata: Metadata
) -> None:
    variables = container(moto_address, TOKEN=ARN)
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"{metadata.origin}/full"
    del variables[RELATIVE_URI]
    hosts = make_hosts({"train.py": PRINTS}, environment=variables)
    hosts.fail()
    assert f"the secret TOKEN ({ARN}) cannot be read: ResourceNotFound" in str(
        hosts["algo-1"].failure
    )


# Redaction --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        pytest.param("s3cr3t", "a s3cr3t, and s3cr3t\n", "a ***, and ***\n", id="several times"),
        pytest.param('a"b\\c', 'x a"b\\c {"k": "a\\"b\\\\c"}', 'x *** {"k": "***"}', id="json"),
        pytest.param("first\nsecond\n", "got second\nfirst", "got ***\n***", id="lines"),
        pytest.param("geheim€", "geheim€ \\u20ac geheim\\u20ac", "*** \\u20ac ***", id="not ASCII"),
        pytest.param("it's ü\\", repr("it's ü\\"), '"***"', id="repr"),
        pytest.param('ü"ber', '{"a": "ü\\"ber"}', '{"a": "***"}', id="json as it is"),
        pytest.param(
            "p/w d+x",
            "?a=p%2Fw%20d%2Bx&b=p/w%20d%2Bx&c=p%2Fw+d%2Bx",
            "?a=***&b=***&c=***",
            id="url",
        ),
        pytest.param("a<é>\\x", repr("a<é>\\x".encode()), "b'***'", id="repr of bytes"),
        pytest.param('a"<b>&c', "<p>a&quot;&lt;b&gt;&amp;c</p>", "<p>***</p>", id="HTML"),
        pytest.param("abc", "abc", "abc", id="too short"),
        pytest.param("", "text", "text", id="empty"),
    ],
)
def test_a_value_is_replaced_in_each_form(value: str, text: str, shown: str) -> None:
    mask = SecretMask.of({"LAUNCHER_SECRET_A": "env", "A": value})
    assert mask.text(text) == shown
    assert mask.output(text.encode()) == shown.encode()


@pytest.mark.parametrize("user", ["", "u", "us", "use"])
def test_a_value_is_replaced_in_a_header_that_base64_encodes(user: str) -> None:
    header = base64.b64encode(f"{user}:hunter2-very-secret".encode()).decode()
    shown = SecretMask(["hunter2-very-secret"]).text(f"Authorization: Basic {header}")
    assert len(shown.replace("***", "")) < len("Authorization: Basic ") + 8 + len(user)
    assert "***" in shown


LINES = "ab\ncd\n\nlonger line"


@given(
    values=st.lists(st.sampled_from(["abab", "ababc", "cabab", "aaaa", LINES]), min_size=1),
    text=st.lists(st.sampled_from(["a", "b", "c", "\n", "abab", LINES, LINES[:9], "é"])),
    cuts=st.lists(st.integers(0, 60)),
)
def test_output_in_any_parts_is_redacted_as_the_whole_is(
    values: list[str], text: list[str], cuts: list[int]
) -> None:
    mask = SecretMask(values)
    whole = "".join(text).encode()
    stream = MaskedStream(mask)
    ends = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    parts = [stream.add(whole[begin:end]) for begin, end in itertools.pairwise(ends)]
    shown = b"".join([*parts, stream.close()])
    assert shown == mask.cut(whole)
    assert not [value for value in values if value.encode() in shown]
    assert shown == mask.output(whole) or shown.endswith(b"***")


def test_what_may_become_a_secret_is_held_back_and_then_shown() -> None:
    stream = MaskedStream(SecretMask(["hunter2"]))
    assert stream.add(b"step 1, h") == b"step 1, "
    assert stream.add(b"unt") == b""
    assert stream.add(b"ing\n") == b"hunting\n"


@pytest.mark.parametrize(
    ("end", "shown"), [("hunter", "***"), ("hunt", "***"), ("hun", "hun"), ("hunter2", "***")]
)
def test_the_beginning_of_a_secret_at_the_end_is_redacted(end: str, shown: str) -> None:
    stream = MaskedStream(SecretMask(["hunter2"]))
    assert stream.add(f"it is {end}".encode()) + stream.close() == f"it is {shown}".encode()


def test_a_value_that_holds_another_is_replaced_as_a_whole() -> None:
    assert SecretMask(["pass", "password"]).text("password pass") == "*** ***"

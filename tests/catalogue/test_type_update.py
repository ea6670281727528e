"""`launcher plan types --update` and EC2's DescribeInstanceTypes, answered in EC2's XML."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from launcher.client import catalogue
from launcher.client.planning import update_catalogue_types
from launcher.errors import CloudError

TODAY = date(2026, 11, 28)
G5 = """
<item>
  <instanceType>g5.xlarge</instanceType>
  <vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo>
  <memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo>
  <instanceStorageInfo><totalSizeInGB>250</totalSizeInGB></instanceStorageInfo>
  <networkInfo>
    <networkPerformance>Up to 10 Gigabit</networkPerformance>
    <networkCards><item>
      <baselineBandwidthInGbps>2.5</baselineBandwidthInGbps>
      <peakBandwidthInGbps>10.0</peakBandwidthInGbps>
    </item></networkCards>
  </networkInfo>
  <gpuInfo><gpus><item>
    <name>A10G</name><manufacturer>NVIDIA</manufacturer><count>1</count>
    <memoryInfo><sizeInMiB>24576</sizeInMiB></memoryInfo>
  </item></gpus></gpuInfo>
</item>"""
C5 = """
<item>
  <instanceType>c5.xlarge</instanceType>
  <vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo>
  <memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>
</item>"""
T2 = C5.replace("c5.xlarge", "t2.nano")  # no type of SageMaker


def answer(items: str, token: str = "") -> str:
    more = f"<nextToken>{token}</nextToken>" if token else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>r-1</requestId><instanceTypeSet>{items}</instanceTypeSet>{more}"
        "</DescribeInstanceTypesResponse>"
    )


@pytest.fixture
def pages(
    credentials: pytest.MonkeyPatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The answers of an EC2 by the token with which they are asked for."""
    answers: dict[str, str] = {}

    class Ec2(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            assert asked["Action"] == ["DescribeInstanceTypes"]
            content = answers[asked.get("NextToken", [""])[0]].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/xml;charset=UTF-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Ec2) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        credentials.setenv("AWS_ENDPOINT_URL_EC2", f"http://127.0.0.1:{server.server_port}")
        yield answers
        server.shutdown()


def figures(name: str) -> tuple[object, ...]:
    found = catalogue.find(name)
    assert found is not None
    return (
        found.vcpu,
        found.memory_gib,
        found.accelerators,
        found.accelerator_name,
        found.network_gbps,
        found.nvme_gb,
        found.source,
    )


def test_the_types_of_all_pages_replace_those_of_the_table(pages: dict[str, str]) -> None:
    pages[""] = answer(G5.replace(">4<", ">5<"), "more")
    pages["more"] = answer(C5 + T2)
    known = figures("ml.g5.2xlarge")
    found = update_catalogue_types("us-east-1", TODAY)

    assert (found.region, found.count, found.new) == ("us-east-1", 2, ())
    source = "ec2-api@2026-11-28"
    assert figures("ml.g5.xlarge") == (5, 16.0, 1, "NVIDIA A10G", 2.5, 250, source)
    assert figures("ml.c5.xlarge") == (4, 8.0, 0, None, None, 0, source)  # nothing is invented
    assert catalogue.find("ml.t2.nano") is None
    assert figures("ml.g5.2xlarge") == known  # EC2 does not name it


def test_a_type_that_two_pages_have_is_one(pages: dict[str, str]) -> None:
    pages[""], pages["more"] = answer(G5 + C5, "more"), answer(C5)

    assert update_catalogue_types("us-east-1", TODAY).count == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (answer(G5)[:-200], "DescribeInstanceTypes"),
        (answer(""), "DescribeInstanceTypes|no instance type of SageMaker"),
        (answer(T2), "EC2 describes no instance type of SageMaker in us-east-1"),
        (answer(G5).replace("instanceTypeSet", "typeSet"), "DescribeInstanceTypes"),
        (answer(G5).replace("vCpuInfo", "cpuInfo"), "ml.g5.xlarge lacks 'VCpuInfo'"),
        (answer(G5).replace("defaultVCpus", "vCpus"), "ml.g5.xlarge lacks 'DefaultVCpus'"),
        (answer(G5).replace("sizeInMiB", "sizeInGiB"), "ml.g5.xlarge lacks 'SizeInMiB'"),
        (answer(G5).replace("instanceType>", "type>"), "a type lacks 'InstanceType'"),
        (answer(G5).replace("gpuInfo", "gpus"), "ml.g5.xlarge lacks its 1 x NVIDIA A10G"),
        (answer(C5 + C5.replace("8192", "4096")), "ml.c5.xlarge twice, with different figures"),
        ("<html>a proxy's page</html>", "DescribeInstanceTypes"),
        ("", "DescribeInstanceTypes"),
    ],
    ids=[
        "cut off",
        "an empty list",
        "no type of SageMaker",
        "no list",
        "no vCPUs",
        "no number of vCPUs",
        "no memory",
        "no names",
        "no GPUs",
        "duplicates that differ",
        "another page",
        "nothing",
    ],
)
def test_an_answer_that_is_not_whole_leaves_the_earlier_types(
    pages: dict[str, str], text: str, why: str
) -> None:
    pages[""] = answer(G5.replace(">4<", ">5<"))
    file = update_catalogue_types("us-east-1", TODAY).file
    before = file.read_bytes()
    pages[""] = text
    with pytest.raises(CloudError, match=why):
        update_catalogue_types("us-east-1", TODAY)

    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
    assert figures("ml.g5.xlarge")[0] == 5

"""AWS as moto serves it over HTTP, a machine that knows nothing of it, and tests of libraries."""

import atexit
import functools
import importlib.util
import json
import os
import signal
import sys
import tempfile
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

import pytest
from kill_table import FIGURES, printed
from made_hosts import make_cluster as make_cluster
from made_hosts import make_hosts as make_hosts
from needs import skipped_line
from trust import TRUST

# A shell starts what is to run in the background deaf to Ctrl-C, and so would be what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of processes of tests import this package: without its bytecode, each compiles it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What tests/build_containers.sh has found to be needed on this machine.
if (_settings := Path(sys.prefix, "containers.conf")).exists():
    os.environ.setdefault("CONTAINERS_CONF", str(_settings))

# A busy machine is no failure, nor is an example that only this run has drawn.
if importlib.util.find_spec("hypothesis"):  # environments of single libraries may be without
    import hypothesis

    hypothesis.settings.register_profile("fresh", deadline=None)  # seeds, for make test-full
    hypothesis.settings.register_profile("launcher", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("launcher")

# Each boto3 session would read the models of the services anew, half a second for SageMaker's.
if importlib.util.find_spec("botocore"):  # the environments of some libraries are without
    import botocore.session

    botocore.session.create_loader = functools.cache(botocore.session.create_loader)

REGION = "eu-west-1"


def pytest_addoption(parser):
    parser.addoption("--library", help="run the tests of this library, whose environment this is")
    parser.addoption(
        "--cases",
        choices=["all", "first", "few"],
        default="all",
        help="run these cases of each test",
    )


@pytest.hookimpl(trylast=True)  # pytest itself has left out the slow ones
def pytest_collection_modifyitems(config, items):
    """Leave out the tests of other libraries than the one that is here, or all others' tests.

    With `--cases first`, leave out the further cases of each test; with `--cases few`, what comes
    after the first case of each file.
    """
    here, cases = config.getoption("--library"), config.getoption("--cases")
    meant, left_out, tests = [], [], set()
    for item in items:
        names = {mark.args[0] for mark in item.iter_markers("library")}
        test = item.nodeid.partition("::" if cases == "few" else "[")[0]
        is_of_here = here in names if here else not names
        is_meant = is_of_here and (cases == "all" or test not in tests)
        (meant if is_meant else left_out).append(item)
        tests |= {test} if is_meant else set()
    config.hook.pytest_deselected(items=left_out)
    items[:] = meant
    if workers := getattr(config, "workerinput", {}).get("workercount"):
        items[:] = _long_first(items, workers)


def _long_first(items, workers):
    """Deal the long and slow tests to the heads of the shares that pytest-xdist gives its workers.

    With `--dist worksteal` these are equal parts of the list, each of which is run in its order,
    and from whose ends workers steal that have nothing left. So no long test is what is left at the
    end, on one core.
    """
    long = [item for item in items if _is_long(item)]
    short = [item for item in items if not _is_long(item)]
    shares = [long[place::workers] for place in range(workers)]
    for place, share in enumerate(shares):
        equal = (sum(map(len, shares[place:])) + len(short)) // (workers - place)
        missing = max(0, equal - len(share))
        share += short[:missing]
        del short[:missing]
    return [item for share in shares for item in share]


def _is_long(item):
    return any(item.get_closest_marker(name) for name in ("long", "slow"))


def pytest_terminal_summary(terminalreporter):
    """Print what became of jobs whose data engine lost somebody, and why tests were skipped."""
    if figures := terminalreporter.config.stash.get(FIGURES, []):
        terminalreporter.section("kills of data engines")
        for line in printed(figures):
            terminalreporter.line(line)
    # Each worker of pytest-xdist reports a file that is skipped as a whole.
    reports = terminalreporter.stats.get("skipped", [])
    if skipped := {(each.nodeid, each.longrepr[2]) for each in reports}:
        reasons = (reason.removeprefix("Skipped: ") for _, reason in skipped)
        terminalreporter.line(skipped_line(reasons))


@pytest.fixture(autouse=True)
def own_modules():
    """Forget what a test has imported from temporary folders: others have modules of the name."""
    before = set(sys.modules)
    yield
    for name in sys.modules.keys() - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(tempfile.gettempdir()):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def price_day(monkeypatch):
    """Have prices as old as they were in September 2026, whenever the tests run."""
    day = datetime(2026, 9, 15, tzinfo=timezone.utc)
    monkeypatch.setattr("launcher.client.catalogue.prices._now", lambda: day)


@pytest.fixture(autouse=True, scope="session")
def ends_without_a_verdict():
    """Have loaders that tests read in this process print no verdict on it when it ends."""
    yield
    if in_process := sys.modules.get("launcher.data.metrics.in_process"):
        atexit.unregister(in_process.this_process()._print_final)


@pytest.fixture(autouse=True)
def leaves_no_variables():
    """Fail a test that leaves variables of AWS to those after it."""
    before = _aws_variables()
    yield
    assert _aws_variables() == before, "the test has left variables of AWS"


def _aws_variables():
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


@pytest.fixture(scope="session")
def moto_address():
    from moto.server import ThreadedMotoServer  # takes a second, which few tests need

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """A machine without credentials, region or configuration."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # this machine may be an instance
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    return monkeypatch


@pytest.fixture
def credentials(offline):
    offline.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    offline.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    offline.setenv("AWS_DEFAULT_REGION", REGION)
    return offline


@pytest.fixture
def aws(credentials, moto_address):
    """An account; clients of it by name."""
    credentials.setenv("AWS_ENDPOINT_URL", moto_address)
    import boto3

    yield boto3.client
    reset = urllib.request.Request(f"{moto_address}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=30).close()


@pytest.fixture
def make_role(moto_address, aws):
    """Make a role that SageMaker may assume; its ARN."""

    def make(name, **fields):
        iam = aws("iam", endpoint_url=moto_address)
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST), **fields)
        return made["Role"]["Arn"]

    return make


@pytest.fixture
def packaged_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packaged prices alone: the folder of the user's own files, which is empty."""
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    return tmp_path

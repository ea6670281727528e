"""examples/probe: the answers of this machine are those of answers.json, for each isolation.

After a change that is meant, UPDATE_GOLDEN=1 stores them anew.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.client import catalogue
from launcher.client.sessions import obstacles
from launcher.client.spec import JobSpec

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "probe"
KNOWN = json.loads((FOLDER / "answers.json").read_text())


@pytest.fixture
def probe(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("probe")
    for name in ("probe", "meeting"):
        sys.modules.pop(name)


def run(home, *words):
    environment = {**os.environ, "LAUNCHER_HOME": str(home), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=540
    )


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["process", "sandbox", "network"])
def test_the_answers_are_those_that_are_known(tmp_path, isolation):
    if obstacle := {kind.value: why for kind, why in obstacles().items()}[isolation]:
        pytest.skip(obstacle)
    command = f"-m launcher run {FOLDER}/job.yaml --local --name probed --isolation {isolation}"
    job = run(tmp_path, *command.split())
    assert job.returncode == 0, job.stderr
    store = ["--store"] if os.environ.get("UPDATE_GOLDEN") else []
    compared = run(tmp_path, f"{FOLDER}/compare.py", "probed", isolation, "--local", *store)
    assert compared.returncode == 0, compared.stdout + compared.stderr
    questions = [line for line in compared.stdout.splitlines() if line.endswith("?")]
    assert set(KNOWN[isolation]) < set(questions)
    printed = [question in job.stderr for question in questions]
    assert printed.count(False) == 3  # those that the job answers, not its hosts
    (request,) = tmp_path.glob("jobs/*/request.json")
    token = json.loads(request.read_text())["Environment"]["LAUNCHER_TOKEN"]
    assert '"LAUNCHER_TOKEN": "<redacted>"' in job.stderr
    assert token not in job.stderr


def test_a_host_of_which_nothing_is_known_leaves_answers(tmp_path):
    variables = {"SAGEMAKER_BASE_DIR": str(tmp_path), "AWS_REGION": "local"}
    alone = [sys.executable, f"{FOLDER}/probe.py", "--wait_seconds", "0.1"]
    subprocess.run(alone, env={**os.environ, **variables}, check=True, timeout=540)
    (answers,) = tmp_path.glob("output/data/probe-*.json")
    assert json.loads(answers.read_text())["platform"]["Which channels does a host see?"] == []


def test_the_hosts_need_the_standard_library_alone():
    source = (FOLDER / "probe.py").read_text() + (FOLDER / "meeting.py").read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE))
    assert imported <= {*sys.stdlib_module_names, "meeting"}


def test_the_page_has_every_question():
    rows = re.findall(r"^\| (.*?\?) \|", (ROOT / "docs" / "probe.md").read_text(), re.MULTILINE)
    source = (FOLDER / "probe.py").read_text() + (FOLDER / "compare.py").read_text()
    assert sorted(rows) == sorted(set(re.findall(r'"([A-Z][^"]*\?)"', source)))


def test_the_types_are_the_cheapest_of_the_catalogue():
    found = (catalogue.PriceList().find(name, "us-east-1") for name in catalogue.instance_types())
    prices = {
        price.instance_type: price.per_hour
        for price in found
        if price and price.per_hour and not price.is_of_one_copy
    }
    types = {group.instance_type for group in JobSpec.from_yaml(FOLDER / "job.yaml").groups}
    assert types == {min(prices, key=prices.get)}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param({"API_KEY": "x", "a": "y"}, {"API_KEY": "<redacted>", "a": "y"}, id="name"),
        pytest.param({"my_password": ["x"]}, {"my_password": "<redacted>"}, id="list"),
        pytest.param(
            {"SM_ENV": '{"auth_token": "x", "b": 1}'},
            {"SM_ENV": '{"auth_token": "<redacted>", "b": 1}'},
            id="JSON in a text",
        ),
        pytest.param({"A": "{no"}, {"A": "{no"}, id="not JSON"),
        pytest.param(["arn:aws:x:111122223333:y"], ["arn:aws:x:<account>:y"], id="account"),
        pytest.param({"n": 111122223333}, {"n": 111122223333}, id="a number is no account"),
    ],
)
def test_secrets_are_known_by_their_names(probe, given, shown):
    assert probe.redacted(given) == shown

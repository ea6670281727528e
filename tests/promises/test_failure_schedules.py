"""Random failure schedules: whatever happens to a job, its ranks receive what the plan says.

A failing seed is repeated by `python tests/promises/trial.py SEED`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from schedule import HARDER, Kind, Reading

from launcher.client.sessions import Isolation, obstacles

SEEDS = (*range(1000, 1200), *range(HARDER, HARDER + 100))
#: Of each kind of fault, over all schedules.
LEAST_EFFECTIVE = 30
#: Schedules in which a way to read was to be seen; samplers and batch_samplers have half of this.
LEAST_SEEN = 12
#: Short schedules which together have every kind of fault, every way to read (one sampler), and
#: all samples.
FEW = (1008, 1061, 1135, 1136, 1182, 1193, HARDER, HARDER + 1, HARDER + 2, HARDER + 3)

Perform = Callable[[int], dict[str, Any]]


@pytest.fixture(scope="module")
def perform() -> Iterator[Perform]:
    """Runs the schedule of a seed and gives its report."""
    if obstacle := obstacles()[Isolation.NETWORK]:
        pytest.skip(f"no network of hosts here: {obstacle}")
    runner = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("trial.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert runner.stdin is not None
    assert runner.stdout is not None

    def run(seed: int) -> dict[str, Any]:
        print(seed, file=runner.stdin, flush=True)
        line = runner.stdout.readline()
        assert line, f"the runner ended with {runner.wait()} in schedule {seed}"
        return dict(json.loads(line))

    with runner:  # closes its pipes
        yield run
        runner.terminate()
        runner.wait(30)


@pytest.fixture(scope="module")
def effective() -> Counter[str]:
    """Effective faults of each kind, and ways to read, in the schedules of this module."""
    return Counter()


def in_words(report: dict[str, Any]) -> str:
    parts = [*report["objections"], *report["timeline"], report["logs"]]
    return "\n".join([f"schedule {report['seed']}:", *parts])


@pytest.mark.long
@pytest.mark.parametrize("seed", FEW)
def test_a_schedule_of_faults_changes_no_batch(perform: Perform, seed: int) -> None:
    report = perform(seed)
    assert report["objections"] == [], in_words(report)
    assert report["effective"], in_words(report)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_of_faults_changes_a_batch(
    perform: Perform, effective: Counter[str], seed: int
) -> None:
    report = perform(seed)
    assert report["objections"] == [], in_words(report)
    effective.update([*report["effective"], report["reading"]])
    effective["schedules"] += 1


@pytest.mark.slow
def test_faults_of_each_kind_were_effective(effective: Counter[str]) -> None:
    if effective["schedules"] < len(SEEDS):
        pytest.skip(f"only {effective['schedules']} of {len(SEEDS)} schedules were run")
    print("\n".join(f"{kind.value:20} {effective[kind.value]:4}" for kind in Kind))
    rare = [kind.value for kind in Kind if effective[kind.value] < LEAST_EFFECTIVE]
    assert rare == []


@pytest.mark.slow
def test_each_way_to_read_was_seen(effective: Counter[str]) -> None:
    if effective["schedules"] < len(SEEDS):
        pytest.skip(f"only {effective['schedules']} of {len(SEEDS)} schedules were run")
    samplers = (Reading.SAMPLER, Reading.BATCH_SAMPLER)
    least = {way: LEAST_SEEN // (2 if way in samplers else 1) for way in Reading}
    assert [way.value for way in Reading if effective[way.value] < least[way]] == []

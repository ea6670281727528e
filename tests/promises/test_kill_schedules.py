"""Seeded schedules of kills: through tf.data, each engine keeps what the docs promise of it.

A job plays five, one in each epoch; the last takes a data host from it. What they came to is
printed as a table after the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hosts import Hosts
from kill_jobs import Played, play
from kill_promises import Promise, Promises, Row, broken, promise_to, promises
from kill_schedules import ROUND, SERVICES, Mode, Victim, draw
from kill_table import KillFigures, note

MakeHosts = Callable[..., Hosts]
OURS, TFS = (Mode.LAUNCHER,), (Mode.AUTO, Mode.FILE, Mode.DATA, Mode.DYNAMIC)
#: A hundred schedules of Launcher's engine, and forty of tf.data's service.
JOBS = {OURS: range(20), TFS: range(8)}
Check = Callable[[int, tuple[Mode, ...]], None]


@pytest.fixture(scope="module")
def page() -> Promises:
    return promises()


@pytest.fixture
def check(
    make_hosts: MakeHosts, page: Promises, tmp_path: Path, pytestconfig: pytest.Config
) -> Check:
    """Plays the schedules of a job, and compares what they came to with the page."""

    def check(number: int, modes: tuple[Mode, ...]) -> None:
        job, folder = draw(number, modes), tmp_path / "files"
        folder.mkdir()
        ended = play(make_hosts, job, folder)
        promised = [promise_to(job.mode, each, page) for each in job.schedules]
        note(pytestconfig, *map(figures, ended.schedules, promised))
        assert list(broken(ended, promised)) == [], (ended.schedules, ended.output)
        assert all(each.hit for each in ended.schedules), (ended.schedules, ended.output)

    return check


def figures(played: Played, row: Row) -> KillFigures:
    return KillFigures(
        mode=played.mode.value,
        victims=played.schedule.victims,
        kills=played.hit,
        went_on=played.went_on,
        lost=played.lost,
        doubled=played.doubled,
        blocked=played.blocked,
        promised=str(row),
    )


def _first_in_ci(numbers: Sequence[int]) -> list[Any]:
    """The numbers, of which CI plays the first."""
    first, *others = numbers
    return [pytest.param(first, marks=pytest.mark.library("smoke")), *others]


@pytest.mark.slow
@pytest.mark.library("tensorflow")
@pytest.mark.parametrize("number", _first_in_ci(JOBS[OURS]))
def test_launchers_engine_loses_and_doubles_nothing(check: Check, number: int) -> None:
    check(number, OURS)


@pytest.mark.slow
@pytest.mark.library("tensorflow")
@pytest.mark.parametrize("number", _first_in_ci(JOBS[TFS]))
def test_tf_datas_service_keeps_what_is_promised(check: Check, number: int) -> None:
    check(number, TFS)


@pytest.mark.parametrize(("modes", "total"), [(OURS, 100), (TFS, 40)], ids=["ours", "tf"])
def test_there_are_as_many_schedules_of_each_victim(modes: tuple[Mode, ...], total: int) -> None:
    jobs = [draw(number, modes) for number in JOBS[modes]]
    assert jobs == [draw(number, modes) for number in JOBS[modes]]
    drawn = [(job.mode, schedule) for job in jobs for schedule in job.schedules]
    assert len({schedule.seed for _, schedule in drawn}) == len(drawn) == total
    for mode in modes:
        of_mode = [schedule.victims for each, schedule in drawn if each is mode]
        names = [*(each.value for each in (*SERVICES, Victim.HOST)), "several of them"]
        least = total // ROUND // len(modes)
        assert {name: of_mode.count(name) for name in names} == dict.fromkeys(names, least)


def test_the_page_promises_something_of_every_mode_and_victim(page: Promises) -> None:
    assert set(page) == {(mode, victim) for mode in Mode for victim in (*SERVICES, Victim.HOST)}
    promised = {key: row.promise for key, row in page.items()}
    exactly = Promise.NONE_LOST | Promise.NONE_DOUBLED | Promise.GOES_ON
    assert {promised[Mode.LAUNCHER, victim] for victim in SERVICES} == {exactly}
    assert promised[Mode.FILE, Victim.WORKER] == Promise.NONE_LOST | Promise.GOES_ON
    assert promised[Mode.DYNAMIC, Victim.WORKER] == Promise.NONE_DOUBLED | Promise.GOES_ON
    assert all(Promise.FAILS in promised[mode, Victim.HOST] for mode in Mode)
    assert {row.seconds for row in page.values()} == {30, 60}

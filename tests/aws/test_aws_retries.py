"""How long one goes on trying: with a clock of our own."""

import pytest

from launcher import CloudError, Refused, Unreachable
from launcher.client.sessions import RetryPolicy, is_propagating, is_throttled, is_transient, retry

BUSY = Refused("ThrottlingException: slower", code="ThrottlingException")


class Clock:
    def __init__(self):
        self.time = 0.0
        self.pauses = []

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.time += seconds


def failing(times, error):
    left = iter([error] * times)

    def call():
        if error := next(left, None):
            raise error
        return "answer"

    return call


def run(call, patience=None, told=None, is_worth=is_throttled):
    clock = Clock()
    patience = patience or RetryPolicy(seconds=60, first=1, longest=8)
    try:
        answer = retry(call, patience, is_worth, told, now=clock.now, sleep=clock.sleep)
    except CloudError as error:
        answer = error
    return answer, clock


def test_pauses_grow_to_the_longest_and_are_partly_random():
    answer, clock = run(failing(6, BUSY))
    assert answer == "answer"
    for pause, full in zip(clock.pauses, [1, 2, 4, 8, 8, 8], strict=True):
        assert full / 2 <= pause <= full
    assert run(failing(6, BUSY))[1].pauses != clock.pauses


def test_patience_ends():
    answer, clock = run(failing(99, BUSY))
    assert answer is BUSY
    assert 60 - 8 <= clock.time <= 60


def test_what_is_not_worth_it_is_not_tried_again():
    error = Refused("ValidationException: no", code="ValidationException")
    answer, clock = run(failing(1, error))
    assert answer is error
    assert clock.pauses == []


def test_each_pause_is_reported():
    told = []
    run(failing(2, BUSY), told=told.append)
    assert len(told) == 2
    assert all("slower; retrying in" in line for line in told)


@pytest.mark.parametrize(
    ("error", "judges"),
    [
        pytest.param(BUSY, {is_throttled, is_transient}, id="throttled"),
        pytest.param(Refused("x", code="InternalFailure"), {is_transient}, id="fault"),
        pytest.param(Refused("x", code="503"), {is_transient}, id="fault without a body"),
        pytest.param(Unreachable("x"), {is_transient}, id="silence"),
        pytest.param(Refused("x", code="AccessDeniedException"), set(), id="denied"),
        pytest.param(
            Refused("ValidationException: Could not assume role R", code="ValidationException"),
            {is_propagating},
            id="propagation",
        ),
        pytest.param(
            Refused("ValidationException: bad", code="ValidationException"), set(), id="invalid"
        ),
        pytest.param(CloudError("no credentials"), set(), id="ours"),
    ],
)
def test_what_is_worth_it(error, judges):
    all_judges = (is_throttled, is_transient, is_propagating)
    assert {judge for judge in all_judges if judge(error)} == judges

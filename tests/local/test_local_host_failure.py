"""host_failure: what a host that fails means for the others, and for the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import Bench, group
from containers import session_in
from waiting import wait_until

from launcher.client.sessions import LocalSession
from launcher.errors import PlatformError

GROUPS = [group("data", 2), group("train", 1)]
#: algo-1 fails; the others end well once it has.
ONE_FAILS = """
if host == "algo-1":
    sys.exit(3)
on_sigterm(lambda: sys.exit(7))
wait_for_go()
"""


@pytest.fixture
def tolerant(tmp_path: Path, isolation: str) -> Bench:
    bench = Bench(tmp_path, isolation)
    bench.session = session_in(tmp_path, isolation, host_failure="tolerate")
    return bench


@pytest.mark.long
def test_a_tolerated_host_is_noted_and_the_others_go_on(tolerant: Bench) -> None:
    tolerant.start(ONE_FAILS, groups=GROUPS)
    assert wait_until(lambda: tolerant.describe()["LocalNotes"]) == [
        "host algo-1 (data) was lost (exit code 3); the others continue, since host_failure is "
        "'tolerate'"
    ]
    tolerant.go()
    assert tolerant.end_of()["TrainingJobStatus"] == "Completed"


@pytest.mark.long
def test_a_group_that_is_lost_whole_fails_the_job(tolerant: Bench) -> None:
    script = """
    if group == "data":
        sys.exit(3)
    on_sigterm(lambda: sys.exit(7))
    time.sleep(600)
    """
    description = tolerant.run(script, groups=GROUPS)
    assert description["TrainingJobStatus"] == "Failed"
    assert description["FailureReason"] in (
        "host algo-1 (data): exit code 3",
        "host algo-2 (data): exit code 3",
    )


@pytest.mark.long
def test_the_reason_is_of_the_group_that_was_lost_and_not_of_a_tolerated_host(
    tolerant: Bench,
) -> None:
    script = """
    if host == "algo-1":
        (ml / "output" / "failure").write_text("tolerated")
        sys.exit(3)
    if group == "train":
        time.sleep(0.5)
        (ml / "output" / "failure").write_text("not tolerated")
        sys.exit(4)
    on_sigterm(lambda: sys.exit(0))
    time.sleep(600)
    """
    assert tolerant.run(script, groups=GROUPS)["FailureReason"] == "not tolerated"


def test_an_unknown_word_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(
        PlatformError, match="unknown host_failure 'ignore': use 'fail' or 'tolerate'"
    ):
        LocalSession(tmp_path / "home", host_failure="ignore")
    assert not (tmp_path / "home").exists()

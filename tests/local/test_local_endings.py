"""Every way in which a job can end; the bench asserts that no process of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from bench import Bench, group, platform_and_keeper, processes_mentioning
from waiting import wait_until

from launcher.client.sessions import JobState, finished, new_description
from launcher.errors import PlatformError

SLEEP = 'escape(); print("up"); time.sleep(600)'
DEAF = f"on_sigterm(signal.SIG_IGN); {SLEEP}"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(
            'raise ValueError("no")', "host algo-1 (homogeneousCluster): exit code 1", id="raises"
        ),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "host algo-1 (homogeneousCluster): killed by SIGSEGV",
            id="segmentation fault",
        ),
    ],
)
def test_a_host_that_fails_fails_the_job(bench: Bench, script: str, reason: str) -> None:
    in_container = bench.image != "local"
    if in_container and "kill" in script:
        pytest.skip("the first process of a container cannot kill itself")
    description = bench.run("escape(); " + script)

    if "raise" in script:
        assert bench.lines()["algo-1"][-1] == "ValueError: no", "the log has the traceback"
    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Failed"
    assert description["FailureReason"] == reason
    assert [each["Status"] for each in description["SecondaryStatusTransitions"]][-2:] == [
        "Uploading",
        "Failed",
    ]


def test_the_failure_file_of_a_killed_host_is_the_reason_without_its_secret(
    default_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-very-secret")
    script = """
        (ml / "output/failure").write_text("refused " + os.environ["TOKEN"] + "é" * 3000)
        os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(1)  # the first process of a container cannot kill itself
    """
    ended = default_bench.run(script, Environment={"LAUNCHER_SECRET_TOKEN": "env"})
    assert ended["FailureReason"] == ("refused ***" + "é" * 3000)[:1024]
    assert "hunter2" not in (default_bench.job_folder() / "status.json").read_text()


def test_the_failure_file_of_a_host_that_did_not_fail_is_no_reason(default_bench: Bench) -> None:
    script = """
    (ml / "output" / "failure").write_text("a success after all")
    if host == "algo-2":
        sys.exit(4)
    """
    description = default_bench.run(script, hosts=1)
    assert description["TrainingJobStatus"] == "Completed"


@pytest.mark.long
def test_the_first_host_that_failed_and_has_a_failure_file_is_the_reason(
    default_bench: Bench,
) -> None:
    script = """
    def leave():
        (ml / "output" / "failure").write_text("the peers went away")
        sys.exit(1)
    on_sigterm(leave)
    print("up")
    if host == "algo-2":
        time.sleep(0.3)
        (ml / "output" / "failure").write_text("out of range")
        sys.exit(2)
    time.sleep(600)
    """
    description = default_bench.run(script, groups=[group("data", 1), group("train", 2)])
    assert description["FailureReason"] == "out of range"


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('failure_not_written host=algo-1 why=full reason="a\\\\nb"', "a\nb"),
        ('host_ended host=algo-1 origin="the peers went away"', "the peers went away"),
        ("host_ended host=algo-1 because=done", "host algo-1 (homogeneousCluster): exit code 1"),
        (
            "host_stopping host=algo-1",
            "host algo-1 (homogeneousCluster): it was asked to stop (SIGTERM), but the job was not",
        ),
    ],
    ids=["a full disk", "another host", "no word", "SIGTERM"],
)
def test_without_a_failure_file_the_log_tells(default_bench: Bench, line: str, reason: str) -> None:
    description = default_bench.run(f"print('launcher: {line}', flush=True)\nsys.exit(1)")
    assert description["FailureReason"] == reason


def test_when_a_host_fails_the_others_are_asked_to_end(bench: Bench) -> None:
    script = """
    def leave():
        print("asked to end")
        sys.exit(0)
    on_sigterm(leave)
    print("up")
    if host == "algo-2":
        wait_for_go()
        sys.exit(3)
    time.sleep(600)
    """
    bench.start(script, groups=[group("data", 1), group("train", 2)])
    bench.wait_for_line("up", hosts=3)
    bench.go()

    assert bench.end_of()["FailureReason"] == "host algo-2 (train): exit code 3"
    assert bench.lines() == {
        "algo-1": ["up", "asked to end"],
        "algo-2": ["up"],
        "algo-3": ["up", "asked to end"],
    }


def test_a_host_that_is_killed_from_outside(bench: Bench) -> None:
    bench.start(SLEEP, groups=[group("data", 1), group("train", 1)])
    bench.wait_for_line("up", hosts=2)
    victims = processes_mentioning(f"{bench.job_folder()}/hosts/algo-2")
    entry = min(pid for pid, command in victims.items() if "launch.py" in command)

    os.kill(entry, signal.SIGKILL)
    assert bench.end_of()["FailureReason"] == "host algo-2 (train): killed by SIGKILL"


def test_stop(bench: Bench) -> None:
    script = """
    def leave():
        (ml / "model" / "checkpoint").write_text("step 7")
        print("saved")
        sys.exit(0)
    on_sigterm(leave)
    escape()
    print("up")
    time.sleep(600)
    """
    bench.start(script, hosts=2)
    bench.wait_for_line("up", hosts=2)

    bench.stop()
    assert bench.describe()["TrainingJobStatus"] in ("Stopping", "Stopped")
    bench.stop()
    description = bench.end_of()
    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Stopped"
    assert [each["Status"] for each in description["SecondaryStatusTransitions"]][-3:] == [
        "Stopping",
        "Uploading",
        "Stopped",
    ]
    assert all("saved" in lines for lines in bench.lines().values())
    assert "FailureReason" not in description
    assert "ModelArtifacts" in description


@pytest.mark.long
def test_stopping_asks_the_first_process_of_a_host_as_a_container_is_asked(
    impatient: Bench,
) -> None:
    script = """
    child = '''
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: print("child asked to end", flush=True))
    print("up", flush=True)
    time.sleep(600)
    '''
    import textwrap
    def leave():
        print("host asked to end", flush=True)
    on_sigterm(leave)
    command = [sys.executable, "-c", textwrap.dedent(child)]
    subprocess.run(command, start_new_session=True)
    """
    impatient.start(script)
    impatient.wait_for_line("up")
    impatient.stop()

    assert impatient.end_of()["TrainingJobStatus"] == "Stopped"
    assert impatient.lines()["algo-1"] == ["up", "host asked to end"]


@pytest.mark.long
def test_a_host_that_ignores_sigterm_is_killed_after_the_grace_period(impatient: Bench) -> None:
    impatient.start(DEAF, hosts=2)
    impatient.wait_for_line("up", hosts=2)
    impatient.stop()

    assert impatient.end_of()["TrainingJobStatus"] == "Stopped"


def test_a_job_stopped_at_once(bench: Bench) -> None:
    bench.start(SLEEP, hosts=3)
    bench.stop()

    assert bench.end_of()["TrainingJobStatus"] == "Stopped"


@pytest.mark.long
def test_the_time_is_up(impatient: Bench) -> None:
    description = impatient.run(DEAF, StoppingCondition={"MaxRuntimeInSeconds": 1})

    assert description["TrainingJobStatus"] == "Stopped"
    assert description["SecondaryStatus"] == "MaxRuntimeExceeded"


@pytest.mark.long
def test_a_host_that_ends_leaves_nothing_behind_while_others_run(bench: Bench) -> None:
    bench.start('escape(); print("up"); time.sleep(600 if host == "algo-2" else 0)', hosts=2)
    bench.wait_for_line("up", hosts=2)

    wait_until(lambda: not processes_mentioning(f"{bench.job_folder()}/hosts/algo-1"))
    assert bench.describe()["TrainingJobStatus"] == "InProgress"
    bench.stop()
    bench.end_of()


@pytest.mark.parametrize("hears", [True, False], ids=["hosts that hear", "hosts that are deaf"])
def test_a_platform_process_that_is_killed_fails_the_job(bench: Bench, hears: bool) -> None:
    bench.start(SLEEP if hears else DEAF, hosts=2)
    bench.wait_for_line("up", hosts=2)
    platform, _ = platform_and_keeper(bench.job_folder())
    scratch = (bench.job_folder() / "scratch").readlink()
    assert scratch.is_dir()

    os.kill(platform, signal.SIGKILL)
    # Nobody asks how the job stands: its keeper ends it.
    wait_until(lambda: '"Failed"' in (bench.job_folder() / "status.json").read_text())
    description = bench.end_of()
    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Failed"
    assert "the local platform process died (killed by SIGKILL)" in description["FailureReason"]
    assert not scratch.exists()
    assert bench.describe() == description


def test_a_platform_process_that_is_killed_with_its_keeper_fails_the_job(bench: Bench) -> None:
    bench.start(DEAF, hosts=2)
    bench.wait_for_line("up", hosts=2)
    platform, keeper = platform_and_keeper(bench.job_folder())
    scratch = (bench.job_folder() / "scratch").readlink()

    os.kill(keeper, signal.SIGKILL)
    os.kill(platform, signal.SIGKILL)
    description = bench.end_of()
    assert description["TrainingJobStatus"] == "Failed"
    assert "the local platform process died" in description["FailureReason"]
    assert not scratch.exists()


@pytest.mark.long
def test_a_platform_process_that_is_killed_while_it_packs_leaves_no_half_archive(
    plain_bench: Bench,
) -> None:
    big = '(ml / "model" / "big").write_bytes(os.urandom(400_000_000))'
    plain_bench.start(big)
    results = plain_bench.output / "job" / "output"
    wait_until(lambda: list(results.glob("*")))
    os.kill(platform_and_keeper(plain_bench.job_folder())[0], signal.SIGKILL)

    assert plain_bench.end_of()["TrainingJobStatus"] == "Failed"
    assert list(results.iterdir()) == []
    assert (plain_bench.job_folder() / "hosts/algo-1/ml/model/big").exists(), "nothing is lost"


def test_a_job_goes_on_without_its_keeper(bench: Bench) -> None:
    bench.start('print("up"); time.sleep(0.5)')
    bench.wait_for_line("up")
    os.kill(platform_and_keeper(bench.job_folder())[1], signal.SIGKILL)

    assert bench.end_of()["TrainingJobStatus"] == "Completed"


def test_a_dead_job_of_another_boot_or_with_damaged_settings(plain_bench: Bench) -> None:
    plain_bench.start(SLEEP)
    plain_bench.wait_for_line("up")
    for pid in reversed(platform_and_keeper(plain_bench.job_folder())):
        os.kill(pid, signal.SIGKILL)
    status, file = (plain_bench.job_folder() / name for name in ("status.json", "settings.json"))
    running = status.read_text()
    rebooted = json.dumps(json.loads(file.read_text()) | {"boot": "an earlier one"})
    for settings, reason in (
        (rebooted, "this machine was restarted while the job ran"),
        ("not json", "the local platform process died"),
        ("{}", "the local platform process died"),
        (None, "the local platform process died"),
    ):
        status.write_text(running)
        file.unlink() if settings is None else file.write_text(settings)
        assert reason in plain_bench.end_of()["FailureReason"], settings


def test_a_job_whose_folder_is_removed_ends(bench: Bench) -> None:
    bench.start(SLEEP)
    bench.wait_for_line("up")
    folder = bench.job_folder()
    scratch = (folder / "scratch").readlink()
    shutil.rmtree(folder)

    wait_until(lambda: not processes_mentioning(str(folder)))
    assert not scratch.exists()


def test_a_clock_that_was_set_back_bills_nothing(plain_bench: Bench) -> None:
    request = plain_bench.request("pass")
    started = new_description(request, arn="arn", isolation="process", now=1000.0)
    ended = finished(started | {"TrainingStartTime": 1000.0}, JobState.COMPLETED, now=400.0)
    assert ended["TrainingTimeInSeconds"] == ended["BillableTimeInSeconds"] == 0


@pytest.mark.long
def test_a_job_whose_lock_is_gone_does_not_hide_the_others(plain_bench: Bench) -> None:
    plain_bench.start(SLEEP, name="bad")
    plain_bench.start(SLEEP)
    lock = plain_bench.job_folder("bad") / "lock"
    lock.rename(lock.with_name("other"))
    listed = plain_bench.session.list_training_jobs()["TrainingJobSummaries"]
    with pytest.raises(PlatformError, match="cannot determine whether job 'bad' is running"):
        plain_bench.describe("bad")
    lock.with_name("other").rename(lock)

    assert [job["TrainingJobName"] for job in listed] == ["job"]


@pytest.mark.long
@pytest.mark.parametrize("who", [0, 1], ids=["platform", "keeper"])
def test_a_platform_process_that_is_asked_to_end_stops_its_job(bench: Bench, who: int) -> None:
    bench.start(SLEEP, hosts=2)
    bench.wait_for_line("up", hosts=2)

    os.kill(platform_and_keeper(bench.job_folder())[who], signal.SIGTERM)
    assert bench.end_of()["TrainingJobStatus"] == "Stopped"


def test_an_entry_point_that_cannot_run(plain_bench: Bench) -> None:
    request = plain_bench.request("")
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["no-such-program"]
    plain_bench.session.create_training_job(**request)

    description = plain_bench.end_of()
    assert description["TrainingJobStatus"] == "Failed"
    assert "cannot start 'no-such-program'" in description["FailureReason"]


def test_output_that_cannot_be_written(plain_bench: Bench) -> None:
    file = f"Path({str(plain_bench.output)!r}).write_text('where a folder is needed')"

    description = plain_bench.run(f"(ml / 'model/weights').write_text('w'); {file}")
    assert description["TrainingJobStatus"] == "Failed"
    assert "cannot write the results to file://" in description["FailureReason"]
    assert "free space there, or use another output_path" in description["FailureReason"]

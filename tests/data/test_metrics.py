"""What processes count, what the dispatcher keeps of it, and how Prometheus is given it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import math
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exposition import read_exposition
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from launcher.data.control import messages as m
from launcher.data.metrics import (
    LatencyHistogram,
    Metrics,
    MetricsServer,
    Snapshot,
    StreamCounters,
    WaitSamples,
    cpu_seconds,
    render,
    stream_totals,
)
from launcher.shared import EVENTS_VARIABLE, format_event, parse_event

# Meters -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-6, 1e4), min_size=1), st.floats(0.01, 1.0))
def test_a_quantile_of_waits_is_right_to_within_an_eighth(waits: list[float], share: float) -> None:
    measure = LatencyHistogram()
    for seconds in waits:
        measure.add(seconds)
    exact = sorted(waits)[max(1, math.ceil(share * len(waits))) - 1]
    assert measure.quantile(share) == pytest.approx(exact, rel=0.126)
    assert measure.longest == max(waits)


def test_without_waits_there_is_no_quantile() -> None:
    assert set(LatencyHistogram().figures().values()) == {0.0}


@pytest.mark.parametrize(("every", "late"), [(10, 9.0), (2, 0.0)], ids=["few", "usual"])
def test_what_few_late_steps_take_longer_is_counted(every: int, late: float) -> None:
    steps = LatencyHistogram()
    for number in range(100):
        steps.add(0.1 if number % every else 1.0)
    assert steps.figures()["late"] == pytest.approx(late, rel=0.15)
    assert steps.figures()["p99"] == pytest.approx(1.0, rel=0.13)


def wait_for_a_socket() -> None:
    one, other = socket.socketpair()
    with one, other:
        select.select([one], [], [], 0.6)


@pytest.mark.skipif(not Path("/proc/self/wchan").exists(), reason="the kernel tells nothing")
@pytest.mark.parametrize(
    ("wait", "kind"),
    [
        (lambda: threading.Event().wait(0.6), "lock"),
        (lambda: subprocess.run(["sleep", "0.6"], check=True), "child"),
        (lambda: time.sleep(0.6), "sleep"),
        (wait_for_a_socket, "network"),
    ],
    ids=["lock", "child", "sleep", "network"],
)
def test_a_wait_is_told_by_what_the_kernel_says(
    wait: Callable[[], object], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EVENTS_VARIABLE, "unused")  # as on a host
    samples = WaitSamples(lambda: "own")
    wait()
    found = samples.by_kind()
    assert max(found, key=lambda each: found[each]) == kind


def test_outside_a_job_a_script_gets_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EVENTS_VARIABLE, raising=False)
    before = set(threading.enumerate())
    assert WaitSamples(lambda: "own").take() == []
    assert not set(threading.enumerate()) - before


def test_epochs_add_up_and_only_the_first_batch_of_all_is_start_up() -> None:
    said: list[dict[str, float]] = []
    past = dict.fromkeys(stream_totals("a stream"), 0.0)
    firsts = []
    for number in range(3):
        if number != 1:  # a loader is made anew, of the same stream
            meter = StreamCounters(past, lambda figures: said.append(dict(figures)))
        clock = meter.begin()
        for _ in range(4):
            clock.count(time.perf_counter(), time.perf_counter())
        clock.waited(time.perf_counter(), time.perf_counter())  # that finds the end
        meter.end(clock)
        firsts.append(clock.first)
    assert [each["steps"] for each in said] == [4, 8, 12]
    assert [each["epochs"] for each in said] == [1, 2, 3]
    assert {each["startup"] for each in said} == {firsts[0]}
    assert said[-1]["first_waits"] == pytest.approx(sum(firsts[1:]))
    assert said[-1]["wait"] <= said[-1]["total"]


def test_cpu_time_counts_children_that_live() -> None:
    busy = "for _ in iter(int, 1): pass"
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", busy]) as child:
        try:
            wait_until(lambda: cpu_seconds() - before > 0.3, what="the child's CPU time")
        finally:
            child.kill()


# The dispatcher's ---------------------------------------------------------------------------------


def worker(process: str, **figures: float) -> m.Report:
    return m.Report(kind="worker", of="algo-1", process=process, figures=figures)


def snapshot(metrics: Metrics) -> Snapshot:
    return metrics.snapshot({"algo-1": 3}, late_leases=2)


def test_a_host_is_the_sum_of_its_workers() -> None:
    metrics = Metrics()
    metrics.record(worker("a", batches=1, bytes=10, unsent=1, cpus=4))
    metrics.record(worker("b", batches=2, bytes=20, unsent=1, cpus=4))
    metrics.record(worker("b", batches=5, bytes=50, unsent=0, cpus=4))
    host = snapshot(metrics).hosts["algo-1"]
    assert (host["batches"], host["bytes"], host["unsent"], host["cpus"]) == (6, 60, 1, 4)
    assert (host["workers"], host["leases"]) == (2, 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans())))
def test_every_batch_counts_once_when_workers_come_and_go_and_come_back(
    events: list[tuple[str, int, bool]],
) -> None:
    metrics, totals = Metrics(), dict.fromkeys("abc", 0)
    for name, number, leaves in events:
        if leaves:
            metrics.forget_worker(name)
        else:
            totals[name] += number
            metrics.record(worker(name, batches=totals[name]))
        host = snapshot(metrics).hosts.get("algo-1", {"batches": 0.0})
        assert host["batches"] == sum(totals.values())


def test_the_totals_of_many_workers_that_died_are_kept() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.record(worker(str(number), batches=1, cpus=8))
        metrics.forget_worker(str(number))
    host = snapshot(metrics).hosts["algo-1"]
    assert (host["batches"], host["cpus"], host["most_workers"]) == (1000, 8, 1)


def test_what_a_host_had_is_known_when_its_workers_have_left() -> None:
    metrics = Metrics()
    for process in "ab":
        metrics.record(worker(process, batches=1, cpus=8))
    for process in "ab":
        metrics.forget_worker(process)
    host = snapshot(metrics).hosts["algo-1"]
    assert (host["workers"], host["most_workers"], host["cpus"], host["batches"]) == (0, 2, 8, 2)


def test_a_restarted_rank_continues_its_counters() -> None:
    metrics = Metrics()
    for process, steps in (("1", 5), ("1", 9), ("2", 1), ("2", 4)):
        metrics.record(m.Report(kind="rank", of="0/a/b", process=process, figures={"steps": steps}))
    assert snapshot(metrics).ranks["0", "a/b"]["steps"] == 13


def test_what_is_no_figure_is_left_out() -> None:
    metrics = Metrics()
    bad = {"batches": math.nan, "bytes": -1, "preparing": "x", "blocked": True, "cpu": 1e999}
    metrics.record(worker("a", prepared=2, strange=5, **bad))  # type: ignore[arg-type]  # as said
    metrics.record(m.Report(kind="strange", of="algo-1", process="a", figures={"batches": 1}))
    host = snapshot(metrics).hosts["algo-1"]
    assert {name for name, value in host.items() if value} == {
        "prepared",
        "workers",
        "most_workers",
        "leases",
    }
    assert "strange" not in host


def test_lines_of_many_hosts_are_events_that_fit_into_a_pipe() -> None:
    metrics = Metrics()
    full = dict.fromkeys(
        ("batches", "bytes", "prepared", "preparing", "blocked", "elapsed", "cpu", "cpus"),
        123456789012.123456,
    )
    for number in range(64):
        report = m.Report(kind="worker", of=f"algo-{number}", process="a", figures=full)
        metrics.record(report)
    lines = [format_event("data_metrics", **each) for each in snapshot(metrics).event_fields()]
    assert max(map(len, lines)) < 3800  # host and group come to it
    read = [parse_event(line) for line in lines]
    assert all(event is not None for event in read)
    named = {n for event in read if event for n in event[1]["figures"] if event[1]["of"] == "hosts"}
    assert named == {f"algo-{number}" for number in range(64)}


# Prometheus ---------------------------------------------------------------------------------------


def full_snapshot(stream: str = "pipeline:train_set") -> Snapshot:
    metrics = Metrics()
    metrics.record(worker("a", batches=7, bytes=1 << 60, cpu=0.125))
    metrics.record(m.Report(kind="rank", of=f"3/{stream}", process="1", figures={"wait": 0.1}))
    metrics.record(m.Report(kind="receiver", of="algo-9", process="1", figures={"held": 4096}))
    metrics.count("messages", 5)
    return snapshot(metrics)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_of_a_stream_survives_the_text_form(stream: str) -> None:
    text = render(full_snapshot(stream)).replace("\r", "\\r")
    for odd in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029":
        text = text.replace(odd, "?")  # Python's idea of a line, not the format's
        stream = stream.replace(odd, "?")
    if "\r" not in stream:
        families = read_exposition(text)
        samples = families["launcher_data_wait_seconds_total"].samples
        assert samples == {frozenset({("rank", "3"), ("stream", stream)}): 0.1}


def test_every_figure_has_its_family_and_its_labels() -> None:
    families = read_exposition(render(full_snapshot()))
    host, none = frozenset({("host", "algo-1")}), frozenset[tuple[str, str]]()
    assert families["launcher_data_host_batches_total"].samples == {host: 7}
    assert families["launcher_data_host_bytes_total"].samples == {host: 2.0**60}
    assert families["launcher_data_host_leases"].kind == "gauge"
    assert families["launcher_data_dispatcher_messages_total"].samples == {none: 5}
    assert families["launcher_data_dispatcher_late_leases_total"].samples == {none: 2}
    assert list(families["launcher_data_receiver_held_bytes"].samples.values()) == [4096]
    assert all(family.help.endswith(".") for family in families.values())


def test_a_page_without_metrics_yet_is_valid() -> None:
    assert read_exposition(render(Metrics().snapshot({}, 0)))


# HTTP ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(text: Callable[[], str]) -> Iterator[int]:
    """The port of a server that runs in a thread until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    stop, loops = asyncio.Event(), []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        serving = asyncio.create_task(MetricsServer(text).serve(("127.0.0.1", port)))
        await stop.wait()
        serving.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        wait_until(lambda: answered(port), what="the server")
        yield port
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)


def answered(port: int) -> bool:
    with contextlib.suppress(OSError):
        return get(port)[0] == 200
    return False


def get(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def talk(port: int, words: bytes) -> bytes:
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(words)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # it need not read all of the garbage
            while part := connection.recv(65536):
                answer += part
        return answer


def test_only_metrics_are_served_and_only_to_be_read() -> None:
    with served(lambda: render(full_snapshot())) as port:
        status, text = get(port)
        assert status == 200
        assert "launcher_data_host_batches_total" in read_exposition(text)
        assert get(port, "/metrics?x=1")[0] == 200
        assert get(port, "/")[0] == get(port, "/metrics/x")[0] == 404
        assert get(port, method="POST")[0] == get(port, method="DELETE")[0] == 405


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(b"GET /metrics\r\n\r\n", id="HTTP/0.9"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: a\r\n", id="half a request"),
        pytest.param(b"\0\r\n\r\n" * 100, id="zeros"),
        pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", id="too long"),
    ],
)
def test_garbage_harms_no_other_connection(garbage: bytes) -> None:
    with served(lambda: render(full_snapshot())) as port:
        assert b" 200 OK" not in talk(port, garbage)
        assert get(port)[0] == 200


def test_many_silent_connections_are_turned_away_and_end() -> None:
    with served(lambda: render(full_snapshot())) as port, contextlib.ExitStack() as stack:

        def is_full() -> bool:
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            return get(port)[0] == 503

        wait_until(is_full, what="too many connections")
        wait_until(lambda: answered(port), what="the silent ones to be dropped")


def test_a_taken_port_is_only_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        asyncio.run(MetricsServer(str).serve(("127.0.0.1", port)))
    (line,) = capfd.readouterr().err.splitlines()
    event = parse_event(line)
    assert event is not None
    assert (event[0], event[1]["port"]) == ("metrics_not_served", port)

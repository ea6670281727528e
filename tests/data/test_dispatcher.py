"""A real dispatcher, and what it says to workers and receivers that come, go and come back."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
from waiting import wait_until

from launcher.data.control import messages as m
from launcher.data.dispatcher import (
    Coordinator,
    DatasetLengths,
    Dispatcher,
    LeaseScheduler,
    coordinator,
    dataset_lengths,
    health_monitor,
    open_reads,
)
from launcher.data.metrics import Publisher
from launcher.data.order import BatchPlan, StreamSpec
from launcher.runtime import jsonl_socket
from launcher.shared import DataPart, parse_event

TOKEN = "token"
Said = TypeVar("Said", bound=m.Message)


class Player:
    """A worker or a receiver, as the dispatcher sees it."""

    def __init__(self, address: tuple[str, int], hello: m.Message) -> None:
        self.heard: list[m.Message] = []
        connection = jsonl_socket.connect(address, TOKEN, timeout=10.0, peer="the dispatcher")
        self._lines = jsonl_socket.LineConnection(connection)
        self.say(hello)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        try:
            while (raw := self._lines.receive()) is not None:
                self.heard.append(m.decode(raw))
        except OSError:
            return

    def say(self, message: m.Message) -> None:
        self._lines.send(message.encode())

    def all(self, kind: type[Said]) -> list[Said]:
        return [message for message in self.heard if isinstance(message, kind)]

    def wait_for(self, kind: type[Said], count: int = 1) -> Said:
        wait_until(lambda: len(self.all(kind)) >= count, 20.0, f"{kind.__name__}")
        return self.all(kind)[count - 1]

    @property
    def is_connected(self) -> bool:
        return self._listener.is_alive()

    @property
    def steps(self) -> list[int]:
        return [step for lease in self.all(m.Lease) for step in lease.steps]

    def leave(self) -> None:
        self._lines.close()


class Meeting:
    """A dispatcher in a thread, and those who have come to it."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = "127.0.0.1", free.getsockname()[1]
        self._players: list[Player] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self.error: RuntimeError | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except RuntimeError as error:
            self.error = error

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        part = DataPart(datasets=("pipeline:train_set",), workers_per_host=1, prefetch_bytes=1000)
        dispatcher = Dispatcher(part, token=TOKEN, data_hosts=("data",), start_timeout=60.0)
        await dispatcher.serve(self.address, self._stop)

    def end(self) -> None:
        for player in self._players:
            player.leave()
        if self.has_ended:
            return
        self.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def worker(self, name: str = "data/0", **parts: Any) -> Player:
        return self._meet(m.RegisterWorker(worker=name, pid=1, **parts))

    def receiver(self, host: str = "train", **parts: Any) -> Player:
        return self._meet(m.RegisterReceiver(host=host, address=("127.0.0.1", 1), **parts))

    def _meet(self, hello: m.Message) -> Player:
        self._players.append(Player(self.address, hello))
        return self._players[-1]


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    meeting = Meeting()
    yield meeting
    meeting.end()


def opened(run: str = "r", rank: int = 0, world: int = 1, **parts: Any) -> m.OpenRun:
    spec = StreamSpec(name="train", dataset="pipeline:train_set", batch_size=1)
    plan = m.encode_plan(BatchPlan(spec=spec, length=10, epoch=0, rank=rank, world=world))
    return m.OpenRun(run=run, rank=rank, plan=plan, **parts)


def at_work(meeting: Meeting) -> tuple[Player, Player]:
    """A receiver with a run that is open, and a worker that was leased batches of it."""
    there, here = meeting.receiver(), meeting.worker()
    there.say(opened())
    here.wait_for(m.Lease)
    return there, here


def shared(rank: int, world: int) -> m.OpenRun:
    """A rank of several begins to read."""
    return opened(f"{rank}-of-{world}", rank, world)


def arrived(*steps: int, run: str = "r", size: int = 100) -> m.ProgressUpdate:
    return m.ProgressUpdate(arrived={run: [[step, "data/0", size] for step in steps]}, taken={})


def taken(*steps: int, run: str = "r") -> m.ProgressUpdate:
    return m.ProgressUpdate(arrived={}, taken={run: list(steps)})


def events(capfd: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    """The fields of the event lines of one name since this was asked last."""
    parsed = filter(None, map(parse_event, capfd.readouterr().err.splitlines()))
    return [fields for event, fields in parsed if event == name]


def test_a_worker_gets_a_runs_definition_before_its_first_lease(meeting: Meeting) -> None:
    there, here = meeting.receiver(), meeting.worker()
    there.say(opened())
    assert here.wait_for(m.Lease).steps == [0, 1]
    kinds = [type(message) for message in here.heard if not isinstance(message, m.Alive)]
    assert kinds[:2] == [m.DefineRun, m.Lease]
    there.say(m.CloseRun(run="r"))
    assert here.wait_for(m.CloseRun).run == "r"


def test_both_sides_get_the_dispatchers_heartbeat(meeting: Meeting) -> None:
    for player in (meeting.receiver(), meeting.worker()):
        player.wait_for(m.Alive, 2)


def test_a_reconnected_receiver_continues_at_its_ranks_progress(
    meeting: Meeting, capfd: pytest.CaptureFixture[str]
) -> None:
    """The old connection may still be open: it was cut half."""
    before, here = meeting.receiver(), meeting.worker()
    before.say(opened())
    here.wait_for(m.Lease)
    before.say(arrived(0, 1))
    before.say(taken(0))
    wait_until(lambda: 2 in here.steps)
    # What it said last is lost: it has step 2 as well, and 0 and 1 are taken.
    back = opened(taken=2, arrived=[[2, "data/0"]], largest=100)
    after = meeting.receiver(runs=[back.encode()], prepared={"data": 2}, received={"0": 2})
    before.say(taken(1))  # it comes late, on the old connection
    after.say(taken(2))
    after.say(m.Goodbye())
    after.wait_for(m.Close)
    assert len(here.steps) == len(set(here.steps))
    after.say(m.CloseRun(run="r"))
    here.wait_for(m.CloseRun)
    meeting.end()
    (counts,) = events(capfd, "batches_served")
    assert (counts["by_host"], counts["received"]) == ({"data": 3}, {"0": 3})


def test_a_run_that_its_receiver_no_longer_has_is_closed(meeting: Meeting) -> None:
    before, here = meeting.receiver(), meeting.worker()
    before.say(opened())
    here.wait_for(m.Lease)
    meeting.receiver()
    assert here.wait_for(m.CloseRun).run == "r"


def test_a_new_dispatcher_leases_nothing_that_a_worker_holds(meeting: Meeting) -> None:
    holder = meeting.worker(holds={"r": [2, 3]})
    other = meeting.worker("data/1")
    back = opened(taken=1, arrived=[[1, "data/0"]], largest=100)
    meeting.receiver(runs=[back.encode()])
    wait_until(lambda: {4, 5} <= set(holder.steps + other.steps))
    assert not {0, 1, 2, 3} & set(holder.steps + other.steps)


def test_a_worker_that_leaves_keeps_what_it_has_begun(meeting: Meeting) -> None:
    _, here = at_work(meeting)
    here.say(m.Leaving(keeps={"r": [0]}))
    other = meeting.worker("data/1")
    assert other.wait_for(m.Lease).steps == [1]
    here.leave()
    wait_until(lambda: other.steps == [1, 0])


def test_a_receiver_that_no_worker_reaches_is_named(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_monitor, "UNREACHABLE_AFTER", 0.5)
    there, here = at_work(meeting)
    here.say(m.PeerUnreachable(run="r", why="refused"))
    failed = there.wait_for(m.RunFailed)
    assert failed.kind == "unavailable"
    assert failed.message == (
        "no data worker can reach the receiver of train: refused (worker data/0)"
    )


@pytest.mark.long
def test_a_receiver_that_was_reached_with_nothing_new_is_not(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_monitor, "UNREACHABLE_AFTER", 1.5)
    monkeypatch.setattr(health_monitor, "REPEATED_WITHIN", 0.5)
    there, here = at_work(meeting)
    here.say(m.PeerUnreachable(run="r", why="refused"))
    here.wait_for(m.Alive, len(here.all(m.Alive)) + 4)
    assert not there.all(m.RunFailed)


@pytest.mark.long
def test_a_receiver_that_comes_and_goes_has_its_time_each_time(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "RECEIVER_RECONNECT_TIMEOUT", 4.0)
    there, here = at_work(meeting)
    there.leave()
    back = meeting.receiver(runs=[opened().encode()])
    here.wait_for(m.Alive, len(here.all(m.Alive)) + 3)  # one comes each second
    back.leave()
    here.wait_for(m.Alive, len(here.all(m.Alive)) + 2)
    assert not here.all(m.CloseRun)
    assert here.wait_for(m.CloseRun).run == "r"


def test_a_rank_that_takes_nothing_is_named_once(
    meeting: Meeting,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(health_monitor, "IDLE_AFTER", 0.5)
    there, _ = at_work(meeting)
    there.say(arrived(0, 1))
    there.say(taken(0))
    there.wait_for(m.Alive, 3)
    assert capfd.readouterr().err.count("rank_idle") == 1


@pytest.mark.long
def test_a_batch_that_a_worker_does_not_bring_is_named_once(
    meeting: Meeting,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(health_monitor, "OVERDUE_AFTER", 0.5)
    there, here = at_work(meeting)
    there.say(arrived(0))
    there.say(taken(0))  # the next is awaited
    here.wait_for(m.Alive, 4)
    (overdue,) = events(capfd, "batch_overdue")
    assert overdue["workers"] == ["data/0"]
    assert overdue["batch"] == "samples 1 of pipeline:train_set"


def prepared_first(step: int, run: str = "r") -> m.Prepared:
    return m.Prepared(run=run, step=step, again=False, structure="", arrays=[], rows=[])


def test_a_silent_worker_compares_nothing(meeting: Meeting) -> None:
    _, here = at_work(meeting)
    others = [meeting.worker(f"data/{number}") for number in (1, 2)]
    for each in others:
        each.wait_for(m.Alive)
    here.say(prepared_first(0))
    wait_until(lambda: any(each.all(m.Verify) for each in others), 20.0, "Verify")
    (living,) = [each for each in others if not each.all(m.Verify)]

    def is_asked() -> bool:
        living.say(m.Heartbeat(seconds=0.1, done={}))
        return bool(living.all(m.Verify))

    wait_until(is_asked, 20.0, "Verify of the other worker")


def test_an_epoch_that_is_only_read_ahead_is_not_reported_as_compared(
    meeting: Meeting, capfd: pytest.CaptureFixture[str]
) -> None:
    there, here = meeting.receiver(), meeting.worker()
    spec = StreamSpec(name="train", dataset="pipeline:train_set", verify=1.0)
    for epoch in (0, 1):
        plan = m.encode_plan(BatchPlan(spec=spec, length=2, epoch=epoch))
        there.say(m.OpenRun(run=f"{epoch}", rank=0, plan=plan, after="0" if epoch else None))
    here.wait_for(m.Lease)
    for run in ("0", "1"):
        there.say(arrived(0, run=run))
    there.say(taken(0, run="0"))
    for run in ("0", "1"):
        there.say(m.CloseRun(run=run))
    there.say(m.Goodbye())
    there.wait_for(m.Close)
    (event,) = events(capfd, "batches_compared")
    assert (event["epoch"], event["compared"], event["of"]) == (0, 0, 1)


def test_garbage_ends_its_connection_and_nothing_else(meeting: Meeting) -> None:
    there, here = meeting.receiver(), meeting.worker()
    for words in (b"{}\n", b"garbage\n", b'{"type": "Lease"}\n', b'["type"]\n'):
        with jsonl_socket.connect(
            meeting.address, TOKEN, timeout=10.0, peer="the dispatcher"
        ) as stranger:
            stranger.sendall(words)
            stranger.settimeout(10)
            assert stranger.recv(1) == b""
    there.say(opened())
    assert here.wait_for(m.Lease).steps == [0, 1]


@pytest.mark.parametrize(
    "damage",
    [
        {"taken": 11},
        {"taken": -1},
        {"early": [1 << 60]},
        {"arrived": [[1 << 60, "data/0"]]},
    ],
)
def test_a_place_that_cannot_be_ends_its_connection_and_nothing_else(
    meeting: Meeting, damage: dict[str, Any]
) -> None:
    lost, here = meeting.receiver(), meeting.worker()
    lost.say(opened(**damage))
    wait_until(lambda: not lost.is_connected, what="the end of the connection")
    meeting.receiver(runs=[opened("other").encode()])
    assert here.wait_for(m.Lease).run == "other"


def in_dispute(meeting: Meeting) -> tuple[Player, Player, Player]:
    """Two receivers and a worker: a rank of the second reads otherwise than one of the first."""
    one, other = meeting.receiver("one"), meeting.receiver("other")
    here = meeting.worker(seconds=0.001)
    one.say(shared(0, world=2))
    here.wait_for(m.Lease)
    other.say(shared(1, world=3))
    return one, other, here


def test_a_rank_that_reads_otherwise_is_refused_and_leased_nothing(meeting: Meeting) -> None:
    one, other, here = in_dispute(meeting)
    assert one.wait_for(m.Confirm).run == "0-of-2"
    one.say(m.Confirmed(run="0-of-2"))
    refused = other.wait_for(m.RunFailed)
    assert (refused.run, refused.kind) == ("1-of-3", "refused")
    assert "world_size=3 on rank 1 and 2 on rank 0" in refused.message
    assert {lease.run for lease in here.all(m.Lease)} == {"0-of-2"}
    one.say(m.CloseRun(run="0-of-2"))
    here.wait_for(m.CloseRun)
    other.say(shared(1, world=3))
    wait_until(lambda: "1-of-3" in {lease.run for lease in here.all(m.Lease)})


def test_a_rank_waits_for_the_word_that_others_have_ended(meeting: Meeting) -> None:
    """Ranks are started again, and a host that was cut off has not said that its own have ended."""
    one, other, here = in_dispute(meeting)
    one.wait_for(m.Confirm)
    assert {lease.run for lease in here.all(m.Lease)} == {"0-of-2"}
    one.say(m.CloseRun(run="0-of-2"))
    wait_until(lambda: "1-of-3" in {lease.run for lease in here.all(m.Lease)})
    assert other.all(m.RunFailed) == []


def test_the_runs_of_an_unresponsive_host_constrain_no_other(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_reads, "CONFIRM_TIMEOUT", 0.3)
    one, other, here = in_dispute(meeting)
    wait_until(lambda: "1-of-3" in {lease.run for lease in here.all(m.Lease)})
    one.say(m.Confirmed(run="0-of-2"))  # too late
    one.say(shared(0, world=2))
    other.say(m.CloseRun(run="1-of-3"))
    here.wait_for(m.CloseRun)
    assert other.all(m.RunFailed) == []


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_rank_whose_host_is_lost_while_it_waits(meeting: Meeting, comes_back: bool) -> None:
    one, other, here = in_dispute(meeting)
    one.wait_for(m.Confirm)
    other.leave()
    if comes_back:
        other = meeting.receiver("other", runs=[shared(1, world=3).encode()])
        one.wait_for(m.Confirm, 2)
    one.say(m.CloseRun(run="0-of-2"))
    here.wait_for(m.CloseRun)
    one.say(shared(2, world=3))
    wait_until(lambda: "2-of-3" in {lease.run for lease in here.all(m.Lease)})
    if comes_back:
        wait_until(lambda: "1-of-3" in {lease.run for lease in here.all(m.Lease)})


def test_the_reports_of_a_lost_receiver_constrain_no_other(meeting: Meeting) -> None:
    one, other = meeting.receiver("one"), meeting.receiver("other")
    here = meeting.worker(seconds=0.001)
    one.say(shared(0, world=2))
    here.wait_for(m.Lease)
    one.leave()
    other.say(shared(1, world=3))
    wait_until(lambda: "1-of-3" in {lease.run for lease in here.all(m.Lease)})
    back = meeting.receiver("one", runs=[shared(0, world=2).encode()])
    other.wait_for(m.Confirm)
    other.say(m.Confirmed(run="1-of-3"))
    assert "world_size=2 on rank 0 and 3 on rank 1" in back.wait_for(m.RunFailed).message


def test_the_first_answer_about_a_dataset_holds_for_all_who_ask() -> None:
    """Ranks that differ in it would read different samples, without a word."""
    lengths = DatasetLengths(("a",))
    assert lengths.ask("train", "a", 0.0) is None
    first = m.Length(dataset="a", length=10)
    assert lengths.answer(first) == {"train"}
    assert lengths.answer(m.Length(dataset="a", length=9)) == set()
    assert lengths.ask("other", "a", 1.0) == first


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_lengths, "DYING_SECONDS", 0.0)


def come_and_die(meeting: Meeting, place: str, pids: range) -> Player:
    """Workers that take each other's place, each after the one before has died; the last lives."""
    for pid in pids:
        worker = meeting.worker(f"{place}/{pid}")
        worker.wait_for(m.Describe)
        if pid < pids[-1]:
            worker.leave()
    return worker


@pytest.mark.usefixtures("hasty")
def test_a_dataset_that_kills_all_who_build_it_is_given_up(meeting: Meeting) -> None:
    train = meeting.receiver()
    train.say(m.Describe(dataset="pipeline:train_set"))
    come_and_die(meeting, "data/0", range(dataset_lengths.MAX_DEATHS)).leave()
    assert not train.all(m.Length)
    meeting.worker(f"data/0/{dataset_lengths.MAX_DEATHS}")
    answer = train.wait_for(m.Length)
    assert "died repeatedly while they built pipeline:train_set" in answer.error
    assert not answer.unavailable


@pytest.mark.usefixtures("hasty")
def test_it_is_not_while_others_have_lived_with_it(meeting: Meeting) -> None:
    train = meeting.receiver()
    train.say(m.Describe(dataset="pipeline:train_set"))
    other = meeting.worker("data/1/1")
    other.wait_for(m.Describe)
    come_and_die(meeting, "data/0", range(2 * dataset_lengths.MAX_DEATHS))
    assert not train.all(m.Length)
    other.say(m.Length(dataset="pipeline:train_set", length=10))
    assert train.wait_for(m.Length).length == 10


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("parting", ["lost", "left", "nothing asked"])
def test_who_comes_back_or_leaves_has_not_died_of_a_dataset(meeting: Meeting, parting: str) -> None:
    train = meeting.receiver()
    if parting != "nothing asked":
        train.say(m.Describe(dataset="pipeline:train_set"))
    for number in range(2 * dataset_lengths.MAX_DEATHS):
        worker = meeting.worker(f"data/0/{0 if parting == 'lost' else number}")
        if parting != "nothing asked":
            worker.wait_for(m.Describe)
        if parting == "left":
            worker.say(m.Leaving(keeps={}))
        worker.leave()
    if parting == "nothing asked":
        train.say(m.Describe(dataset="pipeline:train_set"))
    last = meeting.worker("data/0/99")
    last.wait_for(m.Describe)
    assert not train.all(m.Length)
    last.say(m.Length(dataset="pipeline:train_set", length=10))
    assert train.wait_for(m.Length).length == 10


def test_the_host_gives_up_those_that_die_fast() -> None:
    lengths = DatasetLengths(("a",))
    assert lengths.ask("train", "a", 0.0) is None
    for pid in range(10):
        lengths.record_death(f"data/0/{pid}", float(pid))
    assert not lengths.is_fatal_to(["data/0/10"], now=dataset_lengths.DYING_SECONDS - 1)
    assert lengths.is_fatal_to(["data/0/10"], now=dataset_lengths.DYING_SECONDS)
    assert not lengths.is_fatal_to([], now=dataset_lengths.DYING_SECONDS)
    lengths.answer(m.Length(dataset="a", length=10))
    assert not lengths.is_fatal_to(["data/0/10"], now=dataset_lengths.DYING_SECONDS)


def test_who_died_before_the_question_or_comes_back_late_has_not_died_of_it() -> None:
    lengths = DatasetLengths(("a",))
    assert lengths.ask("train", "a", 10.0) is None
    for pid in range(dataset_lengths.MAX_DEATHS):
        lengths.record_death(f"data/0/{pid}", 9.0)
    assert not lengths.is_fatal_to(["data/0/9"], now=100.0)
    for pid in range(dataset_lengths.MAX_DEATHS):
        lengths.record_death(f"data/0/{pid}", 11.0)
    assert lengths.is_fatal_to(["data/0/9"], now=100.0)
    lengths.record_reconnect("data/0/0")
    assert not lengths.is_fatal_to(["data/0/9"], now=100.0)


def test_workers_that_are_silent_while_they_build_a_dataset_are_given_up_in_time() -> None:
    scheduler = LeaseScheduler(1 << 20)
    scheduler.add_worker("data/0/1", now=0.0)
    judge = health_monitor.HealthMonitor(("data",), start_timeout=300.0, now=0.0)
    judge.record_workers()
    assert judge.no_worker_error(scheduler, 100.0) is not None
    assert judge.no_worker_error(scheduler, 100.0, are_building=True) is None
    word = judge.no_worker_error(scheduler, 301.0, are_building=True)
    assert word == "every data worker is gone or silent for 301 s; data hosts: data"


@pytest.mark.long
def test_workers_that_build_a_dataset_may_be_silent_for_long(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library may read a large file in one call that keeps the interpreter to itself."""
    monkeypatch.setattr(health_monitor, "ABANDONED_AFTER", 0.0)
    train = meeting.receiver()
    train.say(m.Describe(dataset="pipeline:train_set"))
    here = meeting.worker()
    here.wait_for(m.Alive, 3)
    assert not train.all(m.Length)
    here.leave()
    answer = train.wait_for(m.Length)
    assert answer.unavailable
    assert "every data worker is gone or silent" in answer.error


def test_workers_are_closed_even_if_the_final_report_fails(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Publisher, "publish_final", nothing_to_say)
    here = meeting.worker()
    here.wait_for(m.Alive)
    meeting.stop()
    here.wait_for(m.Close)


def test_a_dispatcher_whose_clock_has_stopped_ends(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host starts another one, which leases what is lost; it would lease nothing."""
    monkeypatch.setattr(Coordinator, "poll", nothing_to_say)
    wait_until(lambda: meeting.has_ended, what="the end of the dispatcher")
    assert isinstance(meeting.error, RuntimeError)


def nothing_to_say(*_: object) -> None:
    raise RuntimeError("nothing to say")

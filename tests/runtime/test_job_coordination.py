"""Which failure is the job's: the first cause, not its consequence in other ranks."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import SETTLE, Failure, JobOutcome, OutcomeDecider, handshake, jsonl_socket
from launcher.shared import FAILURE_REASON_LIMIT, MlPaths, parse_event

CAUSE = Failure(host="algo-3", group="train", rank=1, cause="killed by SIGKILL")
PEER_LOSS = Failure(
    host="algo-2", group="train", rank=0, cause="RuntimeError: [gloo] Connection closed by peer"
)


@pytest.fixture
def decider() -> OutcomeDecider:
    hosts = frozenset({"algo-2", "algo-3"})
    return OutcomeDecider(train_hosts=hosts, awaited=hosts)


def test_the_job_ends_well_when_every_train_host_is_done(decider: OutcomeDecider) -> None:
    decider.record_done("algo-2")
    assert decider.outcome(0.0) is None
    decider.record_done("algo-3")
    assert decider.outcome(0.0) == JobOutcome()


def test_a_cause_ends_the_job_at_once(decider: OutcomeDecider) -> None:
    decider.record_failure(CAUSE, 0.0)
    assert decider.outcome(0.0) == JobOutcome(CAUSE)


def test_a_peer_loss_gives_way_to_a_cause_that_is_reported_later(decider: OutcomeDecider) -> None:
    decider.record_failure(PEER_LOSS, 0.0)
    assert decider.outcome(SETTLE / 2) is None
    decider.record_failure(CAUSE, SETTLE / 2)
    assert decider.outcome(SETTLE / 2) == JobOutcome(CAUSE)


def test_a_reason_has_the_users_frames_rather_than_those_of_libraries() -> None:
    inside = [
        line
        for number in range(30)
        for line in (f'  File "/lib/torch/module.py", line {number}, in call', "    x()", "    ^^^")
    ]
    users = ['  File "/opt/ml/code/train.py", line 9, in <module>', "    main()"]
    hook = ['  File "/opt/ml/code/model.py", line 4, in forward', "    x @ y"]
    raising = ['  File "/lib/torch/mm.py", line 5, in mm', "    raise"]
    start, error = "Traceback (most recent call last):", "RuntimeError: x"
    detail = "\n".join([start, *users, *inside, *hook, *inside, *raising, error])
    failure = Failure(host="algo-1", group="train", rank=0, cause=error, detail=detail)
    assert str(failure).splitlines()[1:] == [start, *users, *hook, *raising, error]


@pytest.mark.parametrize(
    ("cause", "is_secondary"),
    [
        ("RuntimeError: [gloo] Connection closed by peer", True),
        ("ServerLost: server algo-1:50051: connection lost: Socket closed", True),
        ("_MultiThreadedRendezvous: <_MultiThreadedRendezvous of RPC that terminated with:", True),
        ("_InactiveRpcError: <_InactiveRpcError of RPC that terminated with:", True),
        ("the command ended before training did: killed by SIGKILL", False),
        ("ValueError: the grammar terminated", False),
    ],
)
def test_a_secondary_failure_reads_like_the_loss_of_a_peer(cause: str, is_secondary: bool) -> None:
    assert Failure(host="algo-3", group="train", cause=cause).is_secondary is is_secondary


def test_a_peer_loss_without_a_cause_is_the_failure_after_a_while(decider: OutcomeDecider) -> None:
    decider.record_failure(PEER_LOSS, 0.0)
    decider.record_done("algo-3")
    assert decider.outcome(SETTLE) == JobOutcome(PEER_LOSS)


LEFT = Failure(
    host="algo-3", group="train", rank=1, cause="the script called os._exit(0) (train.py:9)"
)


def test_a_rank_that_left_is_named_when_others_fail_without_it(decider: OutcomeDecider) -> None:
    decider.record_silent_exit(LEFT)
    decider.record_failure(PEER_LOSS, 0.0)
    outcome = decider.outcome(SETTLE)
    assert outcome is not None
    assert str(outcome.failure) == (
        "host algo-3 (train), rank 1: the script called os._exit(0) (train.py:9), and rank 0 "
        "failed without it\nRuntimeError: [gloo] Connection closed by peer"
    )


def test_a_rank_that_left_is_no_failure_by_itself(decider: OutcomeDecider) -> None:
    decider.record_silent_exit(LEFT)
    decider.record_done("algo-3")
    assert decider.outcome(SETTLE) is None
    decider.record_done("algo-2")
    assert decider.outcome(SETTLE) == JobOutcome()


def test_a_cause_of_its_own_is_told_although_a_rank_left(decider: OutcomeDecider) -> None:
    decider.record_silent_exit(LEFT)
    decider.record_failure(CAUSE, 0.0)
    assert decider.outcome(0.0) == JobOutcome(CAUSE)


def test_a_host_that_goes_without_a_word_has_failed(decider: OutcomeDecider) -> None:
    decider.record_lost("algo-3", "train", 0.0)
    outcome = decider.outcome(0.0)
    assert outcome is not None
    assert str(outcome.failure) == "host algo-3 (train): the host died"


def test_a_host_may_go_when_it_is_done(decider: OutcomeDecider) -> None:
    decider.record_done("algo-3")
    decider.record_lost("algo-3", "train", 0.0)
    assert decider.outcome(100.0) is None


@pytest.fixture
def four() -> OutcomeDecider:
    """Two data hosts and two train hosts, all of which have joined."""
    hosts = frozenset({"algo-3", "algo-4"})
    decider = OutcomeDecider(train_hosts=hosts, awaited=hosts, train_group="train", leader="algo-3")
    for host in ("algo-1", "algo-2", "algo-3", "algo-4"):
        decider.record_join(host)
    return decider


def test_a_train_host_that_is_cut_off_fails_the_job_and_the_leader_reports_it(
    four: OutcomeDecider,
) -> None:
    four.record_unreachable("algo-1", 0.0)
    four.record_unreachable("algo-4", 1.0)
    assert four.outcome(SETTLE) is None, "others may fall silent, too"
    outcome = four.outcome(SETTLE + 1.0)
    assert outcome is not None
    assert outcome.failure is not None
    assert (outcome.failure.host, outcome.failure.witness) == ("algo-4", "algo-3")
    assert "algo-4 (train): it does not answer any more: its network is cut" in str(outcome.failure)


def test_a_leader_without_any_other_host_is_itself_cut_off(four: OutcomeDecider) -> None:
    for host in ("algo-4", "algo-2", "algo-1"):
        four.record_unreachable(host, 0.0)
    outcome = four.outcome(SETTLE)
    assert outcome is not None
    assert "algo-3 (train): no other host answers any more: its network is cut" in str(
        outcome.failure
    )


def test_a_data_host_that_is_cut_off_is_no_failure(four: OutcomeDecider) -> None:
    for host in ("algo-2", "algo-1"):
        four.record_unreachable(host, 0.0)
    assert four.outcome(100.0) is None
    four.record_done("algo-3")
    four.record_done("algo-4")
    assert four.outcome(100.0) == JobOutcome()


def test_a_leader_that_a_silent_host_has_come_back_to_is_not_cut_off(four: OutcomeDecider) -> None:
    for host in ("algo-1", "algo-2"):
        four.record_unreachable(host, 0.0)
    four.record_join("algo-1")
    four.record_unreachable("algo-4", 0.0)
    outcome = four.outcome(SETTLE)
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.host == "algo-4"


def test_a_train_host_may_be_cut_off_when_it_is_done(four: OutcomeDecider) -> None:
    four.record_done("algo-4")
    four.record_unreachable("algo-4", 0.0)
    assert four.outcome(100.0) is None


def test_the_end_is_decided_once(decider: OutcomeDecider) -> None:
    decider.record_failure(CAUSE, 0.0)
    decider.record_lost("algo-2", "train", 0.1)
    decider.record_done("algo-2")
    decider.record_done("algo-3")
    assert decider.outcome(10.0) == JobOutcome(CAUSE)


GROUPS = {"algo-0": "data", "algo-1": "data", "algo-2": "train", "algo-3": "train"}


@pytest.fixture
def tolerant() -> OutcomeDecider:
    hosts = frozenset({"algo-2", "algo-3"})
    return OutcomeDecider(train_hosts=hosts, awaited=hosts, tolerant_groups=GROUPS)


def test_the_loss_of_a_tolerated_data_host_fails_no_other(tolerant: OutcomeDecider) -> None:
    tolerant.record_lost("algo-0", "data", 0.0)
    tolerant.record_failure(Failure(host="algo-0", group="data", cause="its workers crash"), 0.0)
    tolerant.record_done("algo-2")
    assert tolerant.outcome(1.0) is None
    tolerant.record_done("algo-3")
    assert tolerant.outcome(1.0) == JobOutcome()


def test_a_group_that_is_lost_whole_is_a_failure(tolerant: OutcomeDecider) -> None:
    tolerant.record_lost("algo-0", "data", 0.0)
    tolerant.record_lost("algo-1", "data", 0.0)
    outcome = tolerant.outcome(0.0)
    assert outcome is not None
    assert str(outcome.failure) == "host algo-1 (data): the host died"


def test_a_lost_host_that_is_back_is_one_of_its_group_again(tolerant: OutcomeDecider) -> None:
    tolerant.record_lost("algo-0", "data", 0.0)
    tolerant.record_join("algo-0")
    tolerant.record_lost("algo-1", "data", 1.0)
    assert tolerant.outcome(1.0) is None
    tolerant.record_lost("algo-0", "data", 2.0)
    assert tolerant.outcome(2.0) is not None


def test_a_tolerated_train_host_need_not_be_done(tolerant: OutcomeDecider) -> None:
    tolerant.record_done("algo-2")
    tolerant.record_lost("algo-3", "train", 0.0)
    assert tolerant.outcome(0.0) == JobOutcome()


def test_ranks_report_the_loss_of_a_tolerated_train_host(tolerant: OutcomeDecider) -> None:
    tolerant.record_lost("algo-3", "train", 0.0)
    tolerant.record_failure(PEER_LOSS, 0.0)
    outcome = tolerant.outcome(SETTLE)
    assert outcome is not None
    assert str(outcome.failure) == "host algo-3 (train): the host died"


def test_a_cause_of_its_own_is_never_tolerated(tolerant: OutcomeDecider) -> None:
    tolerant.record_failure(CAUSE, 0.0)
    assert tolerant.outcome(0.0) == JobOutcome(CAUSE)


def test_a_reason_fits_and_keeps_the_cause_and_the_last_lines() -> None:
    detail = "\n".join(f"line {number} {'x' * 50}" for number in range(100))
    reason = str(
        Failure(host="algo-1", group="train", rank=0, cause="KeyError: 'a'", detail=detail)
    )
    assert len(reason) <= FAILURE_REASON_LIMIT
    assert reason.startswith("host algo-1 (train), rank 0: KeyError: 'a'\n")
    assert reason.endswith("line 99 " + "x" * 50)


def test_a_cause_of_any_length_fits() -> None:
    assert len(str(Failure(host="h", group="g", cause="x" * 5000, detail="y"))) <= 1024


def test_a_failure_file_holds_what_is_not_unicode(tmp_path: Path) -> None:
    paths = MlPaths(tmp_path)
    Failure(host="h", group="g", cause="bad \udcff name").write(paths)
    assert paths.failure.read_text() == "host h (g): bad \\udcff name"


def test_a_failure_file_that_cannot_be_written_does_not_keep_the_host(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("a file where the folder should be")
    CAUSE.write(MlPaths(tmp_path))


def test_a_failure_file_that_the_user_has_written_stays(tmp_path: Path) -> None:
    paths = MlPaths(tmp_path)
    paths.output.mkdir()
    paths.failure.write_text("my own words")
    CAUSE.write(paths)
    assert paths.failure.read_text() == "my own words"


# Connections ---------------------------------------------------------------------------------


def shake_hands(server_token: str, client_token: str) -> list[BaseException | None]:
    """Shake hands over a real socket; what each side raised."""
    here, there = socket.socketpair()
    outcome: list[BaseException | None] = [None, None]

    def server() -> None:
        try:
            handshake.accept(here, server_token)
        except AuthenticationError as error:
            outcome[0] = error
            here.close()

    thread = threading.Thread(target=server)
    thread.start()
    try:
        handshake.initiate(there, client_token)
    except AuthenticationError as error:
        outcome[1] = error
    there.close()
    thread.join()
    here.close()
    return outcome


def test_both_sides_know_the_token() -> None:
    assert shake_hands("secret", "secret") == [None, None]


def test_a_client_without_the_token_is_refused() -> None:
    server, client = shake_hands("secret", "guess")
    assert isinstance(server, AuthenticationError)
    assert isinstance(client, AuthenticationError)


def test_a_server_without_the_token_is_refused_though_it_accepts_everyone() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(b"launcher/1 " + b"0" * 32 + b"\n" + b"f" * 64 + b"\n")
        with pytest.raises(AuthenticationError, match="does not know this job's token"):
            handshake.initiate(there, "secret")


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\n", b"x" * 1000, b"\x16\x03\x01\n", b""], ids=repr
)
def test_strangers_are_refused(garbage: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(garbage)
        there.shutdown(socket.SHUT_WR)
        with pytest.raises(AuthenticationError):
            handshake.accept(here, "secret")


def test_the_token_never_crosses_the_wire() -> None:
    here, there = socket.socketpair()
    with here, there:
        thread = threading.Thread(target=lambda: swallow(here))
        thread.start()
        heard = bytearray(there.recv(64))
        there.sendall(b"0" * 32 + b" " + b"0" * 64 + b"\n")
        thread.join()
        assert b"secret" not in heard


def swallow(connection: socket.socket) -> None:
    with pytest.raises(AuthenticationError):
        handshake.accept(connection, "secret")


def test_a_stranger_who_answers_is_refused_at_once_and_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail.example.com ESMTP\r\n")
                connection.recv(100)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(AuthenticationError, match="the thing at 127"):
            jsonl_socket.connect(address, "secret", timeout=60, peer="the thing")


def test_a_leader_that_is_slow_to_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_the_second() -> None:
            silent, _ = server.accept()
            connection, _ = server.accept()
            with silent, connection:
                handshake.accept(connection, "secret")

        thread = threading.Thread(target=answer_the_second)
        thread.start()
        jsonl_socket.connect(server.getsockname(), "secret", timeout=20, peer="the leader").close()
        thread.join()


@pytest.mark.parametrize("killed", [1, 2])
def test_a_server_that_is_killed_before_its_proof_is_asked_again(killed: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_the_last() -> None:
            for _ in range(killed):
                _read_an_answer(server)
            connection, _ = server.accept()
            with connection:
                handshake.accept(connection, "secret")

        thread = threading.Thread(target=answer_the_last)
        thread.start()
        jsonl_socket.connect(server.getsockname(), "secret", timeout=20, peer="the leader").close()
        thread.join()


def test_a_server_that_never_gives_its_proof_refuses_the_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with contextlib.suppress(OSError):  # the test has ended
                while True:
                    _read_an_answer(server)

        threading.Thread(target=refuse, daemon=True).start()
        with pytest.raises(AuthenticationError, match="refused this job's token, or was killed"):
            jsonl_socket.connect(server.getsockname(), "guess", timeout=60, peer="the leader")


def _read_an_answer(server: socket.socket) -> None:
    """Greet, read the answer to the challenge, and end the connection."""
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"launcher/1 " + b"0" * 32 + b"\n")
        connection.recv(1000)


def test_both_ends_of_a_connection_break_when_the_other_side_does_not_answer() -> None:
    def timeouts(connection: socket.socket) -> tuple[int, int, int]:
        read = connection.getsockopt
        probes = read(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        seconds = read(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        seconds += probes * read(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        unacknowledged = read(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        return read(socket.SOL_SOCKET, socket.SO_KEEPALIVE), seconds, unacknowledged

    with socket.create_server(("127.0.0.1", 0)) as server:
        met: list[socket.socket] = []

        def serve() -> None:
            connection, _ = next(jsonl_socket.accept_connections(server, "test"))
            handshake.accept(connection, "secret")
            met.append(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        client = jsonl_socket.connect(server.getsockname(), "secret", timeout=20, peer="the leader")
        thread.join()
        for connection in (client, *met):
            with connection:
                assert timeouts(connection) == (
                    1,
                    jsonl_socket.KEEPALIVE_TIMEOUT,
                    1000 * jsonl_socket.KEEPALIVE_TIMEOUT,
                )


def test_an_unreachable_address_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
    with pytest.raises(DataServiceUnavailable, match=f"the thing at {host}:{port} could not be"):
        jsonl_socket.connect((host, port), "secret", timeout=0.2, peer="the thing")


@pytest.mark.long
@pytest.mark.parametrize("logs_waiting", [True, False])
def test_a_host_that_waits_for_another_logs_it(
    logs_waiting: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jsonl_socket, "LOG_INTERVAL", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(DataServiceUnavailable):
        jsonl_socket.connect(
            address, "secret", timeout=3.5, peer="the leader algo-2", logs_waiting=logs_waiting
        )
    events = list(filter(None, map(parse_event, capsys.readouterr().err.splitlines())))
    assert {name for name, _ in events} == ({"waiting_for_peer"} if logs_waiting else set())
    assert {fields["peer"] for _, fields in events} <= {"the leader algo-2"}
    assert len(events) <= 3


def test_messages_are_lines_of_json_whatever_the_pieces() -> None:
    here, there = socket.socketpair()
    connection = jsonl_socket.LineConnection(there)
    with here:
        data = jsonl_socket.encode({"a": 1}) + jsonl_socket.encode({"b": "x\ny"})
        for byte in data:
            here.sendall(bytes([byte]))
        assert connection.receive() == {"a": 1}
        assert connection.receive() == {"b": "x\ny"}
        here.sendall(b"not json\n")
        with pytest.raises(WireError):
            connection.receive()
        here.sendall(b"half a mess")
        here.shutdown(socket.SHUT_WR)
        assert connection.receive() is None
    connection.close()

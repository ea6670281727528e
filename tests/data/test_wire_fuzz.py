"""Whatever bytes arrive, a parser of the wire refuses them with its own error, or ends."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from batches import TYPES, Box, Point, bytes_of, frame_of, start_of, view_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from test_messages import PLAN, WIRE

from launcher.data.batches import Assembly, wire
from launcher.data.control import messages
from launcher.errors import AuthenticationError, DataError, WireError
from launcher.runtime import handshake, jsonl_socket

#: What a host of these tests has for one batch.
MEMORY = 1 << 20

BATCHES = [
    [np.arange(10), np.zeros((2, 0), np.float32), np.array(3, np.int8)],
    {"image": np.ones((4, 3), np.uint8), "label": np.arange(4), "name": ["a", "b\ud800"]},
    Point(np.array([1j]), Box(None, (1, 1 << 80, float("nan"), b"xy", 1j))),
    {(1, "a"): [{"deep": [[[[[np.bool_(True)]]]]]}], None: np.array(["2026-01-01"], "M8[D]")},
    [np.ones(n, np.float16) for n in range(40)],
    "only a text",
]


def test_frames_that_were_damaged_are_refused_or_read() -> None:
    fuzz(frames_survive, seed=1, count=3000)


def test_messages_that_were_damaged_are_refused_or_read() -> None:
    fuzz(messages_survive, seed=2, count=3000)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(4))
def test_200_000_damaged_frames_and_messages(seed: int) -> None:
    fuzz(frames_survive, seed=100 + seed, count=25_000)
    fuzz(messages_survive, seed=200 + seed, count=25_000)


def fuzz(survive: Callable[[random.Random], bool], *, seed: int, count: int) -> None:
    """Run so many cases; both ends, refusal and acceptance, must have been met."""
    coin = random.Random(seed)
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - it comes with the first tensor, and its memory is not meant
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted = sum(survive(coin) for _ in range(count))
    assert 0 < accepted < count
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


# Frames ----------------------------------------------------------------------------------------


def whole_and_in_parts(checksums: bool) -> list[bytes]:
    frames = [frame_of(batch, checksums=checksums) for batch in BATCHES]
    return [bytes_of(frame) for whole in frames for frame in (whole, *whole.split(2, 1))]


FRAMES = {checksums: whole_and_in_parts(checksums) for checksums in (True, False)}
#: Bytes of the numbers and names with which they start.
_SAID = len(start_of().rstrip(b"\0"))


def frames_survive(coin: random.Random) -> bool:
    """Whether a damaged frame was read; with a checksum, only one that is whole may be."""
    checksums = coin.random() < 0.5
    original = coin.choice(FRAMES[checksums])
    end = coin.choice((_SAID, len(original)))
    data = mutated(coin, original[:end], FRAMES[checksums]) + original[end:]
    try:
        header, payload = receive(data, checksums=checksums)
    except WireError:
        return False
    if checksums:
        assert any(data.startswith(frame) for frame in FRAMES[True])
    try:
        tree, arrays = wire.unpack(payload, header.content_bytes)
        tensors = coin.choice([None, True, False])
        Assembly(tensors=tensors, types=coin.choice([(), TYPES])).rebuild(tree, arrays)
    except DataError:
        return False
    return True


def receive(data: bytes, *, checksums: bool) -> tuple[wire.Header, np.ndarray]:
    """A frame as the receiver takes it in: nothing is allocated that this host does not have."""
    connection = arriving(data)
    with connection:
        start = bytearray(wire.START_BYTES)
        if not wire.receive_exactly(connection, memoryview(start)):
            raise WireError("the end")
        header = wire.read_start(start)
        if max(header.payload_bytes, header.total_bytes) > MEMORY:
            raise WireError("more than this host has")
        payload = np.empty(header.payload_bytes, np.uint8)
        if not wire.receive_exactly(connection, payload.data):
            raise WireError("the end")
        if checksums and not wire.is_intact(start, payload):
            raise WireError("damaged")
        return header, payload


def arriving(data: bytes) -> socket.socket:
    """A connection on which these bytes come, and then the end."""
    here, there = socket.socketpair()
    there.settimeout(20)
    with here:
        here.sendall(data)
    return there


@settings(deadline=None)
@given(
    st.binary(max_size=200) | st.binary(min_size=wire.START_BYTES, max_size=700),
    st.booleans(),
    st.booleans(),
)
def test_bytes_are_no_frame(data: bytes, starts_well: bool, checksums: bool) -> None:
    with pytest.raises(WireError):
        unpack(wire.MAGIC + data if starts_well else data, checksums=checksums)


def unpack(data: bytes, *, checksums: bool) -> None:
    """Zeros are the start of an empty payload, which is no batch."""
    header, payload = receive(data, checksums=checksums)
    assert not checksums
    wire.unpack(payload, header.content_bytes)


#: Numbers at which something turns over, and others.
edges = [(1 << 32) - 1, 1 << 32, (1 << 40) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
u64s = st.sampled_from(edges) | st.integers(0, 3) | st.integers(0, (1 << 64) - 1)
in_limits = u64s.map(lambda number: number % (wire.PAYLOAD_LIMIT + 2))
lengths = st.integers(0, 99) | st.sampled_from([451, 452, 453, 511, 512, 32768, 65535])


@given(
    names=st.binary(max_size=460) | st.text(max_size=130).map(str.encode),
    run_bytes=lengths,
    worker_bytes=lengths,
    sizes=st.fixed_dictionaries({"payload": in_limits, "offset": in_limits, "total": in_limits}),
    others=st.fixed_dictionaries({"content": u64s, "step": u64s, "attempt": u64s}),
)
def test_any_numbers_and_names_are_read_as_they_are_or_refused(
    names: bytes, run_bytes: int, worker_bytes: int, sizes: dict[str, int], others: dict[str, int]
) -> None:
    start = start_of(names[:452], b"", lengths=(run_bytes, worker_bytes), **sizes, **others)
    said = start[60:]
    fits = (
        max(sizes["payload"], sizes["total"]) <= wire.PAYLOAD_LIMIT
        and (sizes["total"] == 0 or sizes["offset"] < sizes["total"])
        and run_bytes + worker_bytes <= len(said)
    )
    run, worker = said[:run_bytes], said[run_bytes : run_bytes + worker_bytes]
    if not (fits and is_text(run) and is_text(worker)):
        with pytest.raises(WireError):
            wire.read_start(start)
        return
    place = {"attempt": others["attempt"], "offset": sizes["offset"], "total": sizes["total"]}
    assert wire.read_start(start) == wire.Header(
        run=run.decode(),
        worker=worker.decode(),
        step=others["step"],
        payload_bytes=sizes["payload"],
        content_bytes=others["content"],
        part=wire.WirePart(**place) if sizes["total"] else None,
    )


def is_text(data: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode() is not None
    return False


@given(st.text(max_size=160), st.text(max_size=160))
def test_names_arrive_or_are_refused_where_they_are_given(run: str, worker: str) -> None:
    frame = wire.WireFrame.pack(run, 0, worker, None, [])
    if len((run + worker).encode()) > 452:
        with pytest.raises(DataError, match="too long to be sent"):
            _ = frame.start
    else:
        assert wire.read_start(frame.start) == frame.header


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=3), part, max_size=3)
    ),
    max_leaves=10,
)
leaf_kinds = ["array", "tensor", "scalar", "bytes", "text", "int", "complex", "bfloat16"]
kinds = st.sampled_from([*leaf_kinds, "list", "tuple", "dict", "class", "Point"])
trees = st.recursive(
    json_values | kinds | st.integers(-1, 3),
    lambda part: st.builds(lambda kind, parts: [kind, *parts], kinds, st.lists(part, max_size=4)),
    max_leaves=10,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees, st.sampled_from([None, True, False]))
def test_any_json_is_a_batch_or_refused(tree: Any, tensors: bool | None) -> None:
    arrays = [np.arange(3, dtype=dtype) for dtype in ("u1", "<i2", "<f4")]
    with contextlib.suppress(DataError):
        Assembly(tensors=tensors, types=TYPES).rebuild(tree, arrays)


@pytest.mark.long
@given(
    st.lists(
        json_values | st.sampled_from(["<f4", "|b1", "<M8[s]", "<U0"]) | st.integers(-2, 70),
        max_size=4,
    )
)
def test_any_json_is_an_array_inside_its_payload_or_refused(entry: list[Any]) -> None:
    payload = np.zeros(64, np.uint8)
    try:
        array = view_of(entry, payload)
    except WireError:
        return
    assert array.nbytes <= len(payload)
    assert array.base is not None
    whole = array.base
    first, start = (each.__array_interface__["data"][0] for each in (array, whole))
    assert array.nbytes == 0 or start <= first <= first + array.nbytes <= start + len(payload)
    assert array.flags.c_contiguous


# Messages --------------------------------------------------------------------------------------

LINES = [jsonl_socket.encode(raw) for raw in WIRE]
LINES.append(
    jsonl_socket.encode({"type": "OpenRun", "run": "r", "rank": 0, "plan": vars(PLAN)["spec"].name})
)
RECORDS = [messages.Batch("0-0-1", 1, 2, 3, True, 4).to_line()]
PLANS = [json.dumps(messages.encode_plan(PLAN)).encode()]


def messages_survive(coin: random.Random) -> bool:
    """Whether a damaged line was read as a message; also its plan, where it has one."""
    said = LINES + RECORDS
    data = mutated(coin, coin.choice(said), said)
    plan = mutated(coin, coin.choice(PLANS), PLANS)
    with contextlib.suppress(DataError):
        messages.decode_plan(jsonl_socket.decode(plan))
    rest = data  # as a neighbour hears it
    with contextlib.suppress(WireError):
        while rest and len(rest) > len(shorter := messages.cut(rest)[1]):
            rest = shorter
    with arriving(data) as connection:
        heard = jsonl_socket.LineConnection(connection)
        try:
            while (raw := heard.receive()) is not None:
                messages.decode(raw)
        except WireError:
            return False
    return b"\n" in data


@given(st.binary(max_size=300))
def test_bytes_are_no_message(data: bytes) -> None:
    with contextlib.suppress(WireError):
        messages.decode(jsonl_socket.decode(data))
    with pytest.raises(WireError):
        messages.from_line(data)


@given(st.binary(max_size=120))
def test_bytes_after_a_zero_are_a_batch_or_too_few_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        message, rest = messages.cut(b"\0" + data)
        if message is None:
            assert rest == b"\0" + data
        else:
            assert isinstance(message, messages.Batch)
            assert data.endswith(rest)
            assert messages.cut(message.to_line()) == (message, b"")


@given(st.sampled_from([raw["type"] for raw in WIRE]), json_values)
def test_any_json_is_a_message_or_refused(kind: str, rest: Any) -> None:
    with contextlib.suppress(WireError):
        messages.decode({**(rest if isinstance(rest, dict) else {"run": rest}), "type": kind})


def test_a_message_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_socket, "MESSAGE_LIMIT", 1000)
    with arriving(b"x" * 100_000) as connection, pytest.raises(WireError, match="more than 1000"):
        jsonl_socket.LineConnection(connection).receive()


def test_a_message_deeper_than_any_that_is_sent_is_refused() -> None:
    with pytest.raises(WireError, match="not a message"):
        jsonl_socket.decode(b"[" * 1_000_000)


# The handshake ---------------------------------------------------------------------------------


#: What a client answers, with another token.
proofs = st.builds(
    lambda nonce, proof: f"{nonce.hex()} {proof.hex()}\n".encode(),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=32, max_size=32),
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200) | proofs)
def test_bytes_are_no_answer_to_the_challenge(data: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(data)
        there.shutdown(socket.SHUT_WR)
        with pytest.raises(AuthenticationError):
            handshake.accept(here, "secret")


def test_a_stranger_who_sends_byte_by_byte_has_no_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte comes in time; all of them together do not."""
    monkeypatch.setattr(handshake, "TIMEOUT", 0.5)

    here, there = socket.socketpair()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.05):
            there.send(b"0")

    with here, there:
        dripping = threading.Thread(target=drip)
        dripping.start()
        with pytest.raises(AuthenticationError, match="no answer to the challenge"):
            handshake.accept(here, "secret")
        over.set()
        dripping.join()

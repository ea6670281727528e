"""The control protocol: every message there and back as JSON, and refusals of what is none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from launcher.data.control import (
    Message,
    cut,
    decode,
    decode_plan,
    encode_plan,
    from_line,
    messages,
)
from launcher.data.order import BatchPlan, ShardReaderPlan, StreamSpec
from launcher.errors import DataError, WireError

PLAN = BatchPlan(
    spec=StreamSpec(name="s", dataset="m:f", batch_size=2), length=9, epoch=1, rank=1, world=2
)
LANE = ShardReaderPlan(
    spec=StreamSpec(name="s", dataset="m:f", batch_size=2, shards=3), epoch=1, shard=2, first=4
)
#: One of each, as it is written on the wire; `type` is the class.
WIRE: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("wire_messages.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("raw", WIRE, ids=lambda raw: raw["type"])
def test_a_message_is_its_json_and_its_line(raw: dict[str, Any]) -> None:
    message = decode(json.loads(json.dumps(raw)))
    assert type(message) is getattr(messages, raw["type"])
    assert json.loads(json.dumps(message.encode())) == raw
    for field in dataclasses.fields(message):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(message, field.name, None)
    line = message.to_line()
    assert line.index(b"\n") == len(line) - 1
    assert from_line(line[:-1]) == message
    assert json.loads(line) == raw
    assert cut(line) == (message, b"")
    assert cut(line[:-1]) == (None, line[:-1])


BATCH = messages.Batch(run="r\xfc", step=1, slab=2, size=1 << 40, new=True, content=4)


def test_messages_and_batches_are_cut_one_by_one_wherever_what_has_come_ends() -> None:
    said = [BATCH, messages.Forget(slab=1), BATCH._replace(new=False, run=""), messages.Close()]
    data = b"".join(message.to_line() for message in said)
    for end in range(len(data) + 1):
        heard, rest = [], data[:end]
        while rest:
            message, rest = cut(rest)
            if message is None:
                break
            heard.append(message)
        assert heard == said[: len(heard)]
        assert b"".join(message.to_line() for message in heard) + rest == data[:end]
    assert heard == said


def test_a_batch_whose_run_is_no_text_is_refused() -> None:
    with pytest.raises(WireError, match="a damaged message Batch"):
        cut(BATCH._replace(run="r").to_line()[:-1] + b"\xff")


@pytest.mark.parametrize(
    "line",
    [
        *(b"[]", b'["r",1,2,3,true,4]', b"[", b"[[", b'{"type":"Close"', b'{"type":"Close"}{}'),
        *(b'{"type":"Close"} ', b' {"type":"Close"}', b'{"type":"\xff"}', b'{"type":"Batch"}'),
        *(
            b'{"type":"Forget","slab":NaN}',
            b'{"type":"Forget","slab":1e999}',
            b"null",
            b"3",
            b'"r"',
        ),
        *(b"", b"[" * 100_000),
    ],
    ids=lambda line: repr(line[:30]),
)
def test_what_is_no_line_is_refused(line: bytes) -> None:
    with pytest.raises(WireError, match=r"not a message|a damaged message") as raised:
        from_line(line)
    assert len(str(raised.value)) < 200


def test_every_message_is_known() -> None:
    assert {raw["type"] for raw in WIRE} == {kind.__name__ for kind in Message.__subclasses__()}


@pytest.mark.parametrize("raw", [raw for raw in WIRE if len(raw) > 1], ids=lambda raw: raw["type"])
def test_parts_are_named(raw: dict[str, Any]) -> None:
    """A message that gains a part must not shift the others."""
    kind, *parts = raw.values()
    with pytest.raises(TypeError, match="positional"):
        getattr(messages, kind)(*parts)


def test_parts_that_may_be_left_out() -> None:
    assert decode({"type": "Length", "dataset": "m:f", "length": 1}) == messages.Length(
        dataset="m:f", length=1, error="", unavailable=False
    )
    assert decode(
        {"type": "RunFailed", "run": "r", "kind": "refused", "message": "m"}
    ) == messages.RunFailed(run="r", kind="refused", message="m", index=None, remote_traceback="")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "not a message"),
        ({"type": "Message"}, "not a message"),
        ({"type": "object"}, "not a message"),
        ({"type": None}, "not a message"),
        ({"type": ["Heartbeat"]}, "not a message"),
        ({"type": "Close", "also": 1}, "not a message"),
        ({"run": "r", "step": 1}, "not a message"),
        ({"type": "Consumed", "run": "r"}, "a damaged message Consumed"),
        ({"type": "x" * 500}, "not a message"),
    ],
    ids=lambda given: str(given)[:50],
)
def test_what_is_no_message_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message) as raised:
        decode(raw)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"type": "Lease", "run": "r", "steps": [1, "2"]}, "steps"),
        ({"type": "Lease", "run": ["r"], "steps": []}, "run"),
        ({"type": "Consumed", "run": "r", "steps": [True]}, "steps"),
        ({"type": "Consumed", "run": "r", "steps": [1.0]}, "steps"),
        ({"type": "Heartbeat", "seconds": "1", "done": {}}, "seconds"),
        ({"type": "Heartbeat", "seconds": float("nan"), "done": {}}, "seconds"),
        ({"type": "Heartbeat", "seconds": float("inf"), "done": {}}, "seconds"),
        ({"type": "Heartbeat", "seconds": 1, "done": {"r": {"1": 2}}}, "done"),
        ({"type": "RegisterReceiver", "host": "h", "address": ["h"]}, "address"),
        ({"type": "RegisterReceiver", "host": "h", "address": "ab"}, "address"),
        ({"type": "ProgressUpdate", "arrived": {"r": [[1, "w"]]}, "taken": {}}, "arrived"),
        ({"type": "OpenRun", "run": "r", "rank": 0, "plan": {}, "after": 3}, "after"),
    ],
    ids=str,
)
def test_a_part_of_another_kind_is_refused_and_named(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(WireError, match=f"a damaged message {raw['type']}: {field} is"):
        decode(raw)


@pytest.mark.parametrize("plan", [PLAN, LANE], ids=["indices", "a shard"])
def test_a_plan_is_its_json(plan: BatchPlan | ShardReaderPlan) -> None:
    assert decode_plan(json.loads(json.dumps(encode_plan(plan)))) == plan


@pytest.mark.parametrize(
    "damage", [{"shard": "1"}, {"first": None}, {"pass_index": -1}, {"shard": 3}]
)
def test_a_damaged_plan_of_a_shard_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"a damaged plan|is not in"):
        decode_plan({**encode_plan(LANE), **damage})


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"spec": {}}, id="an empty stream"),
        pytest.param({"spec": None}, id="no stream"),
        pytest.param({"more": 1}, id="a part too many"),
        pytest.param({"length": "9"}, id="a length that is a text"),
        pytest.param({"holes": [[1, "2"]]}, id="a hole that ends in a text"),
    ],
)
def test_a_damaged_plan_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="a damaged plan"):
        decode_plan({**encode_plan(PLAN), **damage})
    with pytest.raises(WireError, match="a damaged plan"):
        decode_plan({})

"""The picture of a step: every pass is there, in its place, to its scale."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up_partition import made_up

from launcher.client.planning import timeline_svg

_SVG = "{http://www.w3.org/2000/svg}"
_SHAPES: dict[str, dict[str, Any]] = {
    "four ranks": {"partitions": 4, "microbatches": 8},
    "virtual stages": {"partitions": 2, "virtual_stages": 2, "microbatches": 4},
    "zero bubble": {"partitions": 4, "microbatches": 8, "schedule": "zero_bubble"},
    "many": {"partitions": 8, "microbatches": 32},
}
shapes = pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)


def drawn(partition, title="a step"):
    return ElementTree.fromstring(timeline_svg(partition.timeline, title))


def boxes(picture):
    """Left, right, top, colour and text of each pass."""
    for box in picture.iter(f"{_SVG}rect"):
        said = box.find(f"{_SVG}title")
        if said is not None:
            left = float(box.get("x"))
            yield left, left + float(box.get("width")), box.get("y"), box.get("fill"), said.text


def texts(picture):
    return [each.text for each in picture.iter(f"{_SVG}text")]


@shapes
def test_each_pass_has_a_box_and_those_of_a_rank_do_not_overlap(shape):
    partition = made_up(**shape)
    lanes: dict[str, list[tuple[float, float]]] = {}
    for left, right, top, _, _ in boxes(drawn(partition)):
        lanes.setdefault(top, []).append((left, right))
    events = partition.timeline.events
    assert [len(lane) for lane in lanes.values()] == [len(lane) for lane in events]
    for lane in lanes.values():
        assert all(a[1] <= b[0] + 0.02 for a, b in itertools.pairwise(lane))


@shapes
def test_boxes_are_to_scale_and_within_the_picture(shape):
    partition = made_up(**shape)
    picture = drawn(partition)
    found = list(boxes(picture))
    scale = (max(right for _, right, *_ in found) - min(left for left, *_ in found)) / (
        partition.timeline.seconds
    )
    lengths = [event.end - event.begin for lane in partition.timeline.events for event in lane]
    for (left, right, *_), seconds in zip(found, lengths, strict=True):
        assert right - left == pytest.approx(seconds * scale, abs=0.02)
    (end,) = {
        float(lane.get("x")) + float(lane.get("width"))
        for lane in picture.findall(f"{_SVG}rect[@rx='3']")
    }
    assert max(right for _, right, *_ in found) == pytest.approx(end, abs=0.02)
    assert end < float(picture.get("width"))


@shapes
def test_numbers_are_drawn_only_where_they_fit(shape):
    picture = drawn(made_up(**shape))
    places = [(left, right) for left, right, *_ in boxes(picture)]
    numbers = [
        each for group in picture.iter(f"{_SVG}g") if group.get("pointer-events") for each in group
    ]
    assert len(numbers) == len(places)  # here all do
    for number, (left, right) in zip(numbers, places, strict=True):
        assert left < float(number.get("x")) < right
        assert 6.6 * len(number.text) < right - left


def test_numbers_that_do_not_fit_are_left_out():
    picture = drawn(made_up(partitions=8, microbatches=400))
    assert len(list(boxes(picture))) == 2 * 8 * 400
    assert not any(group.get("pointer-events") and len(group) for group in picture)


def test_the_legend_has_what_there_is_and_stages_of_a_rank_have_shades():
    plain = drawn(made_up())
    assert {"forward", "backward", "idle"} <= set(texts(plain))
    assert "backward, of weights" not in texts(plain)
    assert len({colour for *_, colour, _ in boxes(plain)}) == 2
    both = drawn(made_up(virtual_stages=2, schedule="zero_bubble"))
    assert {"forward", "backward, of inputs", "backward, of weights"} <= set(texts(both))
    assert any("the darker" in each for each in texts(both))
    assert len({colour for *_, colour, _ in boxes(both)}) == 6


def test_a_box_has_a_label():
    said = [text for *_, text in boxes(drawn(made_up()))]
    assert said[0] == "forward: microbatch 0, stage 0, 0 to 10.5 ms"
    assert len(set(said)) == len(said)


def test_the_axis_has_round_milliseconds_from_0_to_the_end():
    partition = made_up()
    numbers = [float(text) for text in texts(drawn(partition)) if re.fullmatch(r"[\d.]+", text)]
    axis = numbers[: numbers.index(0.0, 1)]  # then come the numbers in the boxes
    assert axis[:3] == [0, 20, 40]
    assert axis[-1] <= partition.timeline.seconds * 1e3 < axis[-1] + 20


def test_the_axis_and_the_boxes_have_one_scale():
    picture = drawn(made_up())
    (place,) = [float(each.get("x")) for each in picture.iter(f"{_SVG}text") if each.text == "20"]
    first = next(boxes(picture))  # which ends after 10.5 ms
    assert place - first[0] == pytest.approx((first[1] - first[0]) * 20 / 10.5, abs=0.1)


def test_text_from_a_file_is_escaped():
    title = '<script>alert("1")</script> & more'
    picture = drawn(made_up(), title)
    assert title in texts(picture)
    page = made_up(task="<b>task</b>:make", device="<script>")._repr_html_()
    assert "<b>" not in page
    assert "<script>" not in page
    assert "&lt;b&gt;task" in page

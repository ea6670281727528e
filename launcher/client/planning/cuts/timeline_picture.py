"""SVG of a pipeline's timeline: a row for each rank, a box for each pass of a microbatch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.client.show import escaped
from launcher.shared import OPTIMIZER, ActionKind, Event, Timeline, seconds_text

#: The label of each kind of action, and its colours in the first and the last stage of a rank.
_KINDS = {
    ActionKind.FORWARD: ("forward", "#9ccbf0", "#5b9fd8"),
    ActionKind.BACKWARD: ("backward", "#fbc488", "#ee933f"),
    ActionKind.INPUT: ("backward, of inputs", "#fbc488", "#ee933f"),
    ActionKind.WEIGHT: ("backward, of weights", "#a9dcae", "#63b56d"),
}
#: Pixels of a drawing, its rows, and the digits in boxes.
_WIDTH, _WIDEST = 1000, 2000
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 22, 70, 40
_LANE, _GAP, _BAR = 34, 8, 26
_DIGIT, _LETTER = 6.6, 6.6
#: Least width of a forward pass, so that two digits fit, as far as the widest drawing allows.
_LEAST_BOX = 16
#: Least distance between two numbers of the axis.
_TICK = 90
#: The label and colour of exchanges of gradients.
_EXCHANGE = ("exchange of gradients", "#c9b6e4")
_UPDATE = ("update", "#d9cfa3")
_INK, _FAINT, _IDLE = "#1f2933", "#d9dee4", "#eef1f4"

#: The events of each rank, in order.
Lanes = Sequence[Sequence[Event]]


def timeline_svg(timeline: Timeline, title: str) -> str:
    """Return the drawing as an SVG document."""
    lanes = timeline.events
    paper = _Paper.of(timeline)
    height = _TOP + len(lanes) * (_LANE + _GAP) + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{paper.width}" '
        f'height="{height}" viewBox="0 0 {paper.width} {height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif" '
        f'font-size="12" fill="{_INK}">',
        f"<title>{escaped(title)}</title>",
        f'<rect width="{paper.width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="600">{escaped(title)}</text>',
        *_legend(timeline),
        *_ranks(lanes, paper),
        *_axis(lanes, paper),
        *_boxes(lanes, paper),
        *_exchanges(timeline, paper),
        *_numbers(lanes, paper),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, kw_only=True)
class _Paper:
    """Coordinates of the drawing. seconds: from the left end of the rows to the right one."""

    seconds: float
    width: int

    @classmethod
    def of(cls, timeline: Timeline) -> _Paper:
        forward = sorted(
            event.end - event.begin
            for lane in timeline.events
            for event in lane
            if event.action.kind is ActionKind.FORWARD
        )
        seconds, usual = timeline.seconds or 1.0, forward[len(forward) // 2]
        wanted = _LEAST_BOX * seconds / usual if usual else 0.0
        inside = min(max(wanted, _WIDTH - _LEFT - _RIGHT), _WIDEST - _LEFT - _RIGHT)
        return cls(seconds=seconds, width=round(inside) + _LEFT + _RIGHT)

    def x(self, seconds: float) -> float:
        return _LEFT + seconds / self.seconds * (self.width - _LEFT - _RIGHT)


def _y(rank: int) -> float:
    return _TOP + rank * (_LANE + _GAP)


def _legend(timeline: Timeline) -> Iterator[str]:
    lanes = timeline.events
    kinds = {event.action.kind for lane in lanes for event in lane}
    shown = [(word, colour) for kind, (word, colour, _) in _KINDS.items() if kind in kinds]
    names = {each.partners for lane in timeline.exchanges for each in lane}
    shown += [_EXCHANGE] * bool(names - {OPTIMIZER}) + [_UPDATE] * (OPTIMIZER in names)
    x = float(_LEFT)
    for word, colour in shown:
        yield f'<rect x="{x:.0f}" y="40" width="14" height="14" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 20:.0f}" y="51.5">{word}</text>'
        x += 44 + len(word) * _LETTER
    yield f'<rect x="{x:.0f}" y="40" width="14" height="14" rx="2" fill="{_IDLE}"/>'
    yield f'<text x="{x + 20:.0f}" y="51.5">idle</text>'
    if len(_stages(lanes[0])) > 1:
        text = "the later the stage of a rank, the darker"
        yield f'<text x="{x + 64:.0f}" y="51.5" font-style="italic">{text}</text>'


def _ranks(lanes: Lanes, paper: _Paper) -> Iterator[str]:
    width = paper.width - _LEFT - _RIGHT
    for rank in range(len(lanes)):
        middle = _y(rank) + _LANE / 2 + 4
        yield f'<text x="{_LEFT - 12}" y="{middle:.0f}" text-anchor="end">rank {rank}</text>'
        yield (
            f'<rect x="{_LEFT}" y="{_y(rank):.0f}" width="{width}" height="{_LANE}" rx="3" '
            f'fill="{_IDLE}"/>'
        )


def _axis(lanes: Lanes, paper: _Paper) -> Iterator[str]:
    bottom = _y(len(lanes)) - _GAP + 6
    ticks = list(_ticks(paper))
    yield f'<g stroke="{_FAINT}">'
    yield f'<path d="M{_LEFT} {bottom:.0f}H{paper.width - _RIGHT}" stroke="{_INK}"/>'
    for tick in ticks:
        yield f'<path d="M{paper.x(tick):.1f} {_TOP - 4}V{bottom + 5:.0f}"/>'
    yield '</g><g text-anchor="middle">'
    for tick in ticks:
        yield f'<text x="{paper.x(tick):.1f}" y="{bottom + 20:.0f}">{tick * 1e3:.6g}</text>'
    yield f'</g><text x="{_LEFT - 12}" y="{bottom + 20:.0f}" text-anchor="end">ms</text>'


def _ticks(paper: _Paper) -> Iterator[float]:
    """Return round numbers of seconds, from 0 on."""
    least = _TICK * paper.seconds / (paper.width - _LEFT - _RIGHT)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= least)
    return (number * step for number in range(math.floor(paper.seconds / step * (1 + 1e-9)) + 1))


def _boxes(lanes: Lanes, paper: _Paper) -> Iterator[str]:
    for rank, lane in enumerate(lanes):
        stages = _stages(lane)
        top = _y(rank) + (_LANE - _BAR) / 2
        yield '<g stroke="#ffffff" stroke-width="0.7">'
        for (kind, stage, microbatch), begin, end in lane:
            word, first, last = _KINDS[kind]
            colour = _between(first, last, stages.index(stage) / max(len(stages) - 1, 1))
            times = f"{seconds_text(begin)} to {seconds_text(end)}"
            yield (
                f'<rect x="{paper.x(begin):.2f}" y="{top:.0f}" height="{_BAR}" rx="2" '
                f'width="{paper.x(end) - paper.x(begin):.2f}" fill="{colour}">'
                f"<title>{word}: microbatch {microbatch}, stage {stage}, {times}</title></rect>"
            )
        yield "</g>"


def _exchanges(timeline: Timeline, paper: _Paper) -> Iterator[str]:
    for rank, exchanges in enumerate(timeline.exchanges):
        top = _y(rank) + (_LANE - _BAR) / 2
        for partners, begin, end in exchanges:
            times = f"{seconds_text(begin)} to {seconds_text(end)}"
            word, colour = _UPDATE if partners == OPTIMIZER else _EXCHANGE
            yield (
                f'<rect x="{paper.x(begin):.2f}" y="{top:.0f}" height="{_BAR}" rx="2" '
                f'width="{paper.x(end) - paper.x(begin):.2f}" fill="{colour}">'
                f"<title>{word} with {partners}, {times}</title></rect>"
            )


def _numbers(lanes: Lanes, paper: _Paper) -> Iterator[str]:
    """Yield the numbers of microbatches, in the boxes that have room for them."""
    yield '<g text-anchor="middle" font-size="11" pointer-events="none">'
    for rank, lane in enumerate(lanes):
        baseline = _y(rank) + _LANE / 2 + 4
        for (_, _, microbatch), begin, end in lane:
            left, right = paper.x(begin), paper.x(end)
            if len(str(microbatch)) * _DIGIT + 2 <= right - left:
                yield f'<text x="{(left + right) / 2:.1f}" y="{baseline:.0f}">{microbatch}</text>'
    yield "</g>"


def _stages(lane: Sequence[Event]) -> list[int]:
    """Return the stages of a rank, in the order in which a microbatch passes through them."""
    return sorted({event.action.stage for event in lane})


def _between(first: str, last: str, share: float) -> str:
    """Return the colour at this fraction of the way from the first to the last."""
    pairs = ((int(first[at : at + 2], 16), int(last[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)

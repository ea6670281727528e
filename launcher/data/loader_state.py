"""Resume points of a loader, and the states in which they are saved.

A state records which positions of the epoch's order have been taken. A loader with in_order=False
knows only its own rank's, so its state can be loaded as it is on the same rank of the same world;
for another world, the states of all ranks are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from launcher.data.order import BatchPlan, Range, ResumePoint, ShardPrefix, StepSet, StreamSpec
from launcher.errors import DataError

VERSION = 2
#: Fields that determine the order of samples, and so must be the same when reading resumes.
_ORDER = ("dataset", "shuffle", "seed", "sampler", "batch_sampler")
#: Fields that determine the positions of a rank's steps.
_STEPS = ("batch_size", "drop_last", "uneven")
#: Fields that determine which samples the steps of an iterable dataset have taken.
_SHARDS = ("shards", "batch_size", "drop_last")

State = dict[str, Any]


class LoaderProgress:
    """The steps of one plan that have been taken."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        self._done = StepSet(plan.done)
        # Tracked per rank, because the others have done other steps.
        self._alone = bool(plan.done) or not plan.spec.in_order
        self._taken = self.samples = 0

    def end(self) -> None:
        """Do nothing: the plan gives the number of steps."""

    @property
    def pads(self) -> int:
        """Samples that are repeated to fill the last step."""
        return self._plan.count(self._plan.padded)

    @property
    def drops(self) -> int:
        """Samples that no rank gets."""
        return self._plan.count(self._plan.dropped)

    def record(self, step: int) -> None:
        """Count a step that was taken."""
        self._taken += 1
        self.samples += self._plan.samples_in(step)
        if self._alone:
            self._done.add(self._plan.step_in_epoch(step))

    @property
    def resume_point(self) -> ResumePoint | None:
        """The point to resume from; None when the epoch is over."""
        plan = self._plan
        return (
            plan.resume_point_with(self._done)
            if self._alone
            else plan.resume_point_after(self._taken)
        )


def write_state(spec: StreamSpec, resume_point: ResumePoint, *, rank: int, world: int) -> State:
    """Return a resume point as a JSON object of a few hundred bytes, beside a dataset's states."""
    state: State = {
        "version": VERSION,
        **{name: getattr(spec, name) for name in _ORDER},
        "epoch": resume_point.epoch,
        "position": resume_point.position,
    }
    if resume_point.taken:
        state |= {"taken": resume_point.taken, "world": world}
        if resume_point.prefix:
            state |= {"prefix": resume_point.prefix, "rank": rank}
        state |= {name: getattr(spec, name) for name in _SHARDS}
        if prefixes := resume_point.prefixes:
            state["prefixes"] = {str(shard): each.to_json() for shard, each in prefixes.items()}
    if resume_point.length is not None:
        state |= {"length": resume_point.length, "digest": resume_point.digest}
    if resume_point.holes:
        state["holes"] = [list(hole) for hole in resume_point.holes]
    if resume_point.done:
        state["done"] = [list(steps) for steps in resume_point.done]
        state |= {"rank": rank, "world": world, **{name: getattr(spec, name) for name in _STEPS}}
    return state


def read_state(
    states: Mapping[str, object] | Sequence[Mapping[str, object]],
    spec: StreamSpec,
    *,
    rank: int,
    world: int,
) -> ResumePoint:
    """Return the resume point of a state, or of the states of all ranks.

    Raises DataError when this loader's samples would not continue those read before.
    """
    given = [states] if isinstance(states, Mapping) else list(states)
    resume_points = [_read_one(state, spec) for state in given]
    if not resume_points:
        raise DataError("no state to load: the list is empty")
    for state, resume_point in zip(given, resume_points, strict=True):
        if resume_point.taken:
            _check_shards(state, spec, world)
    if all(
        resume_point == resume_points[0] and not resume_point.done for resume_point in resume_points
    ):
        # Read in order: one state holds for all ranks, and its prefix for its own.
        own = [p for s, p in zip(given, resume_points, strict=True) if s.get("rank") == rank]
        found = own[0] if own else replace(resume_points[0], prefix="")
        prefixes = {shard: each for p in resume_points for shard, each in p.prefixes.items()}
        return replace(found, prefixes=prefixes)
    mine = {"rank": rank, "world": world, **{name: getattr(spec, name) for name in _STEPS}}
    for state, resume_point in zip(given, resume_points, strict=True):
        if {name: state.get(name) for name in mine} == mine:
            return resume_point
    return _merge(given, resume_points, spec)


def _read_one(state: Mapping[str, Any], spec: StreamSpec) -> ResumePoint:
    if state.get("version") != VERSION:
        raise DataError(
            f"not a state of this loader: version {state.get('version')!r}, and {VERSION} is "
            "expected"
        )
    try:
        for name in _ORDER:
            if state[name] != (mine := getattr(spec, name)):
                raise DataError(
                    f"the state was taken with {name}={state[name]!r}, and this loader has "
                    f"{name}={mine!r}, so it would read other samples: give the state to the "
                    "loader that saved it, or make this one with the same arguments"
                )
        return ResumePoint(
            epoch=int(state["epoch"]),
            position=int(state["position"]),
            taken=int(state.get("taken", 0)),
            holes=_ranges(state.get("holes", ())),
            done=_ranges(state.get("done", ())),
            length=state.get("length"),
            digest=state.get("digest", ""),
            prefix=state.get("prefix", ""),
            prefixes={
                int(shard): ShardPrefix.from_json(each)
                for shard, each in state.get("prefixes", {}).items()
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"not a state of this loader, or a damaged one: {error!r}") from error


def _check_shards(state: Mapping[str, object], spec: StreamSpec, world: int) -> None:
    for name, mine in {"world": world, **{n: getattr(spec, n) for n in _SHARDS}}.items():
        if state.get(name) != mine:
            raise DataError(
                f"the state was taken with {name}={state.get(name)!r}, and this loader has "
                f"{name}={mine!r}: to resume, an iterable dataset must be read in the same steps; "
                "set_epoch() starts an epoch in which they may differ"
            )


def _ranges(raw: Any) -> tuple[Range, ...]:
    return tuple((int(start), int(stop)) for start, stop in raw)


def _merge(
    states: Sequence[Mapping[str, object]], resume_points: Sequence[ResumePoint], spec: StreamSpec
) -> ResumePoint:
    """Merge the resume points of all ranks, each of which did steps in its own order."""
    _check_all_ranks(states, resume_points)
    first = resume_points[0]
    left = np.zeros(first.length or 0, bool)
    for start, stop in (*first.holes, (first.position, len(left))):
        left[start:stop] = True
    for state, resume_point in zip(states, resume_points, strict=True):
        left[_positions_done(state, resume_point, spec)] = False
    return replace(first, done=(), **_as_position_and_holes(left))


def _check_all_ranks(
    states: Sequence[Mapping[str, Any]], resume_points: Sequence[ResumePoint]
) -> None:
    """Raise unless all ranks of one world are present and started from one resume point."""
    if not any(resume_point.done for resume_point in resume_points):
        places = sorted({(each.epoch, each.taken or each.position) for each in resume_points})
        raise DataError(
            f"the states were saved at different steps: at position {places[0][1]} of epoch "
            f"{places[0][0]}, and {places[-1][1]} of epoch {places[-1][0]}; ranks that read in "
            "order have one state for all: load one of them, or those of one step"
        )
    world = states[0].get("world")
    ranks = sorted(state.get("rank", -1) for state in states)
    origins = {replace(resume_point, done=()) for resume_point in resume_points}
    if len(origins) > 1 or world is None or ranks != list(range(world)):
        raise DataError(
            f"a state with in_order=False covers one rank, and these cover the ranks {ranks} of a "
            f"world of {world}: to resume with other ranks or another batch_size, save the states "
            "of all ranks at one step and load them as a list"
        )


def _positions_done(
    state: Mapping[str, Any], resume_point: ResumePoint, spec: StreamSpec
) -> list[int]:
    """Return the positions of the epoch that a rank has taken since its resume point."""
    plan = BatchPlan(
        spec=replace(spec, **{name: state[name] for name in _STEPS}),
        length=resume_point.length or 0,
        epoch=resume_point.epoch,
        rank=state["rank"],
        world=state["world"],
        position=resume_point.position,
        holes=resume_point.holes,
    )
    steps = (step for start, stop in resume_point.done for step in range(start, stop))
    return [at for step in steps for at in plan.positions(step) if at < plan.length]


def _as_position_and_holes(left: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], left, [False]]).astype(np.int8)))
    holes = [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
    position = holes.pop()[0] if holes and holes[-1][1] == len(left) else len(left)
    return {"position": position, "holes": tuple(holes)}

"""Causes that all steps of a rank show together: late steps, phases, and what the kernel saw."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter

from launcher.shared.causes.cause import (
    CLEAR,
    COMMUNICATING,
    COMPUTING,
    FEWEST_STEPS,
    SEEN_WAITING,
    SHORTEST,
    SLOW_FIRST,
    WORTH_IT,
    Cause,
    Confidence,
    Finding,
    StepLimit,
    WaitKind,
)
from launcher.shared.causes.cause_evidence import Doing, Evidence, PassTimes

#: Names of functions that evaluate or save, as most scripts have them.
_EVALUATES = re.compile(r"\b_?(eval|valid|test)", re.IGNORECASE)
_SAVES = re.compile(r"torch\.save|\b_?(save|checkpoint|write_checkpoint)", re.IGNORECASE)
_OF_KIND = {
    WaitKind.LOCK: Cause.LOCK,
    WaitKind.CHILD: Cause.CHILD,
    WaitKind.DISK: Cause.STORAGE,
    WaitKind.NETWORK: Cause.NETWORK,
    WaitKind.SLEEP: Cause.SLEEP,
}
_WORDS = {
    WaitKind.LOCK: "a lock",
    WaitKind.CHILD: "another process",
    WaitKind.DISK: "a disk",
    WaitKind.NETWORK: "a network",
    WaitKind.SLEEP: "a time to pass",
}


def judge_phases(evidence: Evidence) -> Finding | None:
    """Find a phase, or late steps, that the whole job spends much of its time in."""
    passes = evidence.passes
    total = sum(each.seconds + each.between for each in passes)
    if sum(each.steps for each in passes) < FEWEST_STEPS or total < SHORTEST:
        return None
    main = longest_stream(passes)
    for rule in (_first_epoch, _garbage, _between, _late):
        if found := rule(passes, main, total):
            return found
    return None


def judge_own_waits(evidence: Evidence) -> Finding | None:
    """Find what the script itself waits for in its steps, in a job of one rank without GPUs."""
    total = sum(each.seconds for each in evidence.passes)
    is_alone = evidence.rank_count == 1 and all(group.gpu is None for group in evidence.groups)
    if not is_alone or total < SHORTEST:
        return None
    doing = [each for one in evidence.passes for each in one.doing if each.phase == "own"]
    kind, seconds = largest_kind(doing)
    share = seconds / total
    if kind is None or share < COMMUNICATING:
        return None
    return Finding(
        cause=_OF_KIND[kind],
        kind=StepLimit.STALLED,
        confidence=_confidence(share, COMMUNICATING),
        why=f"the script's own part of a step waits for {_WORDS[kind]} for {share:.0%} of the time"
        f"{_in(doing, kind)}",
    )


def seen_loading(evidence: Evidence) -> tuple[Cause, str] | None:
    """Return the cause that the kernel saw while batches were prepared, and its words."""
    data = evidence.known_wait
    if data is None or data.kind is None:
        return None
    if data.is_waiting is False and data.kind is WaitKind.LOCK:
        return Cause.INTERPRETER, "other threads of the process hold the interpreter meanwhile"
    if data.is_waiting is False and data.kind is not WaitKind.CHILD:
        return None
    doing = [each for one in evidence.passes for each in one.doing if each.phase == "data"]
    words = f"what prepares it waits for {_WORDS[data.kind]}{_in(doing, data.kind)}"
    return _OF_KIND[data.kind], words


def loading_kind(passes: Iterable[PassTimes]) -> WaitKind | None:
    """Return what a rank that loads its data itself mostly waits for meanwhile; None if it runs."""
    doing = [each for one in passes for each in one.doing if each.phase == "data"]
    kind, seconds = largest_kind(doing)
    waiting = sum(each.seconds for each in doing if each.kind != "running")
    is_seen = waiting >= SEEN_WAITING * sum(each.seconds for each in doing)
    return kind if waiting and is_seen and seconds >= COMPUTING * waiting else None


def largest_kind(doing: Iterable[Doing]) -> tuple[WaitKind | None, float]:
    """Return the kind of wait that took longest, and its seconds; None without any."""
    seconds: defaultdict[WaitKind, float] = defaultdict(float)
    for each in doing:
        if each.kind in _OF_KIND:
            seconds[WaitKind(each.kind)] += each.seconds
    return max(seconds.items(), key=itemgetter(1), default=(None, 0.0))


def longest_stream(passes: Sequence[PassTimes]) -> str:
    """Return the stream that was read for longest: that of the training."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in passes:
        seconds[each.stream] += each.seconds
    return max(seconds, key=lambda stream: seconds[stream])


def _first_epoch(passes: Sequence[PassTimes], main: str, total: float) -> Finding | None:
    first, *others = [each for each in passes if each.stream == main]
    steps = sum(each.steps for each in others)
    if not steps or not first.steps:
        return None
    usual = sum(each.seconds for each in others) / steps
    longer = first.seconds - first.first - usual * first.steps
    if longer < WORTH_IT * total or longer < (SLOW_FIRST - 1) * usual * first.steps:
        return None
    return Finding(
        cause=Cause.FIRST_EPOCH,
        confidence=_confidence(longer / total, WORTH_IT),
        why=f"a step of the first epoch takes {first.seconds / first.steps / usual:.1f} times as "
        f"long as one of the later ones, which is {longer / total:.0%} of the time",
    )


def _garbage(passes: Sequence[PassTimes], _main: str, total: float) -> Finding | None:
    share = sum(each.garbage for each in passes) / total
    if share < WORTH_IT:
        return None
    return Finding(
        cause=Cause.GARBAGE,
        confidence=_confidence(share, WORTH_IT),
        why=f"Python's garbage collector runs for {share:.0%} of the time",
    )


def _between(passes: Sequence[PassTimes], main: str, total: float) -> Finding | None:
    """Find an evaluation or a checkpoint after epochs."""
    read = sum(each.seconds for each in passes if each.stream != main)
    share = (read + sum(each.between for each in passes)) / total
    if share < WORTH_IT:
        return None
    where = _where(passes, ("between",))
    fallback = Cause.EVALUATION if read >= share * total / 2 else Cause.STALLS
    return _named(where, fallback, share, f"{share:.0%} of the time is spent between epochs")


def _late(passes: Sequence[PassTimes], main: str, total: float) -> Finding | None:
    """Find steps that now and then take several times the usual one."""
    of_main = [each for each in passes if each.stream == main]
    own = sum(each.late_own for each in of_main) / total
    if own < WORTH_IT:
        return None
    why = f"some steps take several times the usual one, which is {own:.0%} of the time"
    return _named(_where(of_main, ("late",)), Cause.STALLS, own, why)


def _named(where: str, fallback: Cause, share: float, why: str) -> Finding:
    cause, functions = fallback, re.sub(r"\(.*?\)", "", where)
    if _SAVES.search(functions):
        cause = Cause.CHECKPOINT
    elif _EVALUATES.search(functions):
        cause = Cause.EVALUATION
    return Finding(
        cause=cause,
        confidence=_confidence(share, WORTH_IT) if where else Confidence.MEDIUM,
        why=f"{why}: in {where}" if where else why,
        culprit=where or None,
    )


def _where(passes: Sequence[PassTimes], phases: Collection[str]) -> str:
    """Return the user's function in which most of some phases is spent."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in (doing for one in passes for doing in one.doing if doing.phase in phases):
        seconds[each.where] += each.seconds
    return max(seconds, key=lambda where: seconds[where], default="")


def _in(doing: Iterable[Doing], kind: WaitKind) -> str:
    places = [(each.seconds, each.where) for each in doing if each.kind == kind]
    _, where = max(places, default=(0.0, ""))
    return f", in {where}" if where else ""


def _confidence(share: float, limit: float) -> Confidence:
    return Confidence.HIGH if share >= limit * (1 + CLEAR) else Confidence.MEDIUM

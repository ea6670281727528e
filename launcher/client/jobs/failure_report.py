"""The one cause of a failed job: where it happened, what, the user's lines, and what to try."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.failure_cause import (
    OF_FILES,
    OF_HOSTS,
    OF_SAMPLES,
    CauseEvidence,
    advice,
    depends_on_logs,
    read_cause,
)
from launcher.client.jobs.group_hosts import group_of_hosts
from launcher.client.jobs.merged_log import LogLine, MergedLog
from launcher.client.jobs.traceback_text import START, last_traceback, raised_error, short_traceback
from launcher.client.sessions import PlatformSession
from launcher.errors import LauncherError
from launcher.shared import CODE_CHANNEL

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

#: Lines of a traceback, and lines that were printed last, to show.
TRACEBACK_LINES = 14
LAST_LINES = 10
#: Lines of a host to look for the cause in, and characters of a line; and lines to report.
_KEPT_LINES, _KEPT_CHARACTERS = 60, 2000
_REPORTED_LINES = 20
#: Words of a reason whose cause only the lines of all hosts show.
NEEDS_ALL_HOSTS = "the events worker_died in"
#: A failure as hosts write it; SageMaker puts words in front.
_REASON = re.compile(
    r"host (?P<host>algo-[1-9]\d*) \((?P<group>[^)]*)\)(?:, rank (?P<rank>\d+))?: (?P<cause>[^\n]*)"
)
#: SageMaker's words around the failure file of a container.
_PLATFORMS_WORDS = re.compile(
    r"\A(?:AlgorithmError: )?(?P<own>.*?)(?:, exit code: \d+)?\s*\Z", re.DOTALL
)
_HOST = re.compile(r"\b(algo-[1-9]\d*)\b")
#: The frame in which subprocess has not found a program.
_STARTS_PROGRAM = ", in _execute_child"


@dataclass(frozen=True, kw_only=True)
class FailureReport:
    """A failure for a person.

    host, group, rank, doing, fix: None if not known. host: where it began. doing: what failed
    there, such as "sample 7 of pipeline:train_set". traceback: its lines that matter, or what the
    reason says below its first line. printed: the last lines of that host. fix: what to try.
    """

    host: str | None
    group: str | None
    rank: int | None
    cause: str
    doing: str | None
    traceback: tuple[str, ...]
    printed: tuple[str, ...]
    fix: str | None

    @property
    def headline(self) -> str:
        """The place and the cause in one line."""
        return f"{self.host} ({self.group}): {self.cause}" if self.host else self.cause

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines below the headline: of the traceback, else those that were printed last."""
        doing = (f"while preparing {self.doing}",) if self.doing else ()
        is_repeated = self.printed[-1:] == (self.cause,)
        printed = self.printed[:-1] if is_repeated else self.printed
        return doing + (self.traceback or printed[-LAST_LINES:])

    @property
    def text(self) -> str:
        """The failure in at most 20 lines."""
        fix = [f"try: {self.fix}"] if self.fix else []
        return "\n".join([self.headline, *(f"  {line}" for line in self.lines), *fix])

    def to_plain(self) -> dict[str, Any]:
        """Return the failure as `-o json` prints it; `failed_host` is apart."""
        return {key: value for key, value in asdict(self).items() if key != "printed"}

    @property
    def failed_host(self) -> dict[str, Any] | None:
        """The host and its last lines, as `-o json` prints them."""
        if self.host is None:
            return None
        return {"group": self.group, "host": self.host, "last_lines": list(self.printed)}


@dataclass
class _Evidence:
    """Last lines of hosts, texts of their ranks' failures, and the first host that reported one.

    death: the host of the last data worker that died, and how.
    """

    printed: dict[str, deque[str]] = field(default_factory=dict)
    texts: dict[tuple[str, int | None], list[str]] = field(default_factory=dict)
    reported: tuple[str, Mapping[str, Any]] | None = None
    death: tuple[str, str] | None = None
    _current: list[str] | None = None

    @classmethod
    def of(cls, lines: Iterable[LogLine]) -> _Evidence:
        found = cls()
        for line in lines:
            found._add(line)
        return found

    def text(self, host: str | None, rank: int | None) -> list[str] | None:
        """Return the traceback of a rank, or of any of its host where the rank is unknown."""
        if host is None:
            return None
        of_host = {of: text for (name, of), text in self.texts.items() if name == host}
        return of_host.get(rank) or (next(iter(of_host.values()), None) if rank is None else None)

    def _add(self, line: LogLine) -> None:
        event = line.event
        if event is not None:
            name, fields = event
            self._current = None
            if name == "rank_failed":
                self._current = self.texts[line.host, fields.get("rank")] = []
            elif name == "host_failed" and self.reported is None:
                self.reported = (line.host, fields)
            elif name == "worker_died":
                self.death = (line.host, str(fields.get("how", "an unknown end")))
            return
        text = line.readable[:_KEPT_CHARACTERS]
        if line.belongs_to_event and self._current is not None:
            self._current.append(text)
        else:
            self.printed.setdefault(line.host, deque(maxlen=_KEPT_LINES)).append(text)


def failure_of(
    session: PlatformSession,
    now: TrainingJobDescription,
    *,
    brief: bool = False,
    read: Callable[[Callable[[], FailureReport], MergedLog], FailureReport] = (
        lambda report, _log: report()
    ),
) -> FailureReport | None:
    """Return the one cause of a described job that has failed; None for any other.

    Whoever shows a cause asks this function. brief: its headline alone is needed, so logs are read
    only where the headline depends on them. read: makes the call that reads
    them from a log.
    """
    if now["TrainingJobStatus"] != "Failed":
        return None
    reason, groups = now.get("FailureReason", ""), group_of_hosts(now)
    channels = [channel["ChannelName"] for channel in now.get("InputDataConfig", [])]
    given = [name for name in channels if name != CODE_CHANNEL]
    known = _REASON.search(reason)
    if brief and known is not None and not depends_on_logs(known["cause"]):
        return report_failure(reason, (), groups, given)
    named = frozenset(_HOST.findall(reason)) & groups.keys() if known is not None else frozenset()
    hosts = named if named and NEEDS_ALL_HOSTS not in reason else None
    try:
        log = MergedLog(session, now["TrainingJobName"], groups, hosts=hosts)
        return read(lambda: report_failure(reason, log.remaining(), groups, given), log)
    except LauncherError:  # without access to the logs, the failure reason still stands
        return report_failure(reason, (), groups, given)


def host_of_reason(reason: str, hosts: Iterable[str]) -> str | None:
    """Return the host that a FailureReason names first, or the only host there is, else None."""
    known = list(hosts)
    named = [host for host in _HOST.findall(reason) if host in known]
    return named[0] if named else known[0] if len(known) == 1 else None


def report_failure(
    reason: str, lines: Iterable[LogLine], groups: Mapping[str, str], channels: Collection[str]
) -> FailureReport:
    """Return the failure that a FailureReason names, with the lines of the log that show it.

    lines: of the host that it names, or of all. groups: the group of each host.
    """
    evidence = _Evidence.of(lines)
    host, rank, reported = _origin(reason, evidence, groups)
    printed = tuple(evidence.printed.get(host or "", ()))
    raised = evidence.text(host, rank)
    text = raised or last_traceback(printed) or reason.splitlines()
    cause = read_cause(
        reported,
        CauseEvidence(printed=printed, raised=raised_error(text), death=evidence.death),
    )
    place = cause.data_host or host
    is_elsewhere = place is not None and place != host
    last_lines: Iterable[str] = (
        evidence.printed.get(place or "", ()) if is_elsewhere else (*printed, *(raised or ()))
    )
    unsuitable = tuple(_unsuitable(text, is_of_data=cause.is_of_data, is_alone=len(groups) == 1))
    return FailureReport(
        host=place,
        group=groups.get(place, "?") if place else None,
        rank=None if cause.data_host else rank,
        cause=cause.text,
        doing=cause.doing,
        traceback=_shown_traceback(text, cause.text, of_rank=bool(raised))
        or cause.below[-TRACEBACK_LINES:]
        or _details(reason),
        printed=tuple(last_lines)[-_REPORTED_LINES:],
        fix=advice(cause.text, channels, is_located=cause.is_located, unsuitable=unsuitable),
    )


def _shown_traceback(text: Sequence[str], cause: str, *, of_rank: bool) -> tuple[str, ...]:
    """Return the lines of the last traceback that has a frame beside Launcher's.

    An error of Launcher's may quote a traceback of its own below the one that has raised it.
    cause: is not repeated as the error from which another was raised.
    """
    starts = [number for number, line in enumerate(text) if line.strip() == START]
    ends = [len(text), *reversed(starts)]
    shown = (short_traceback(text[:end], TRACEBACK_LINES, of_rank=of_rank) for end in ends)
    lines = next(filter(None, shown), ())
    return tuple(line for line in lines if not f"caused by {cause}".startswith(line))


def _unsuitable(text: Iterable[str], *, is_of_data: bool, is_alone: bool) -> Iterator[str]:
    """Yield the advice that is not for a failure, by the lines of its traceback and its place."""
    if not is_of_data:
        yield OF_SAMPLES
    if is_alone:
        yield OF_HOSTS
    if any(_STARTS_PROGRAM in line for line in text):
        yield OF_FILES


def _origin(
    reason: str, evidence: _Evidence, groups: Mapping[str, str]
) -> tuple[str | None, int | None, str]:
    """Return the host, its rank and the cause: from the reason, else from the first event."""
    match = _REASON.search(reason)
    if match is not None:
        return match["host"], int(match["rank"]) if match["rank"] else None, match["cause"]
    own = _own_words(reason)
    if evidence.reported is not None:
        reporter, fields = evidence.reported
        cause = own or str(fields.get("cause", "it failed"))
        return reporter, fields.get("of_rank"), cause
    words = own or reason.strip() or "no reason was given"
    return host_of_reason(reason, groups), None, words


def _own_words(reason: str) -> str | None:
    """Return the line that says the cause in a reason that a script or the platform has written."""
    lines = _PLATFORMS_WORDS.sub(r"\g<own>", reason).strip().splitlines()
    return (raised_error(lines) if START in lines else None) or next(iter(lines), None)


def _details(reason: str) -> tuple[str, ...]:
    """Return what a reason says below its first line, such as pip's last lines."""
    return tuple(reason.strip().splitlines()[1:])[-TRACEBACK_LINES:]

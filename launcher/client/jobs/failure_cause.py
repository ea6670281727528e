"""Rules that turn a reported cause into the error that the program itself raised or printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from launcher.client.jobs.traceback_text import (
    AFTER_ERROR,
    crash_frames,
    last_traceback,
    raised_error,
)
from launcher.shared import EXIT_CODE

#: The last words of argparse; and those of click, which other lines may begin with.
_USAGE_ERROR = re.compile(r"^[\w. /-]+: error: (?P<text>.+)$")
_CLICK_ERROR = re.compile(r"^Error: (?P<text>.+)$")
#: Words for resources that have run out, as programs print them before they end themselves.
_EXHAUSTED = re.compile(
    r"\bMemoryError\b|Cannot allocate memory|Too many open files|No space left on device|"
    r"can't start new thread|\bE(?:NOMEM|MFILE|NFILE|NOSPC)\b"
)
_CLICK_CODES = ("1", "2")
#: Words of a failure of a loader's batch.
_BATCH = re.compile(r"collate|\bsamples? |DataLoader")


@dataclass(frozen=True, kw_only=True)
class FailureCause:
    """The cause in one line.

    below: further lines of it. is_located: they are the lines of a crash. doing: what failed there,
    such as "sample 7 of pipeline:train_set". data_host: where it failed, if on a data host.
    """

    text: str
    below: tuple[str, ...] = ()
    is_located: bool = False
    doing: str | None = None
    data_host: str | None = None

    @property
    def is_of_data(self) -> bool:
        """True for a failure of samples, of a dataset or of a batch."""
        known = self.data_host is not None or self.doing is not None
        return known or _BATCH.search(self.text) is not None


@dataclass(frozen=True, kw_only=True)
class CauseEvidence:
    """All that is known of a failure beside the words for its cause.

    printed: the last lines of its host. raised: the error below its traceback, if there is one.
    death: the host of the last data worker that died, and how.
    """

    printed: tuple[str, ...]
    raised: str | None
    death: tuple[str, str] | None


def read_cause(text: str, evidence: CauseEvidence) -> FailureCause:
    """Return the cause that hosts have reported as a text."""
    cause = _with_lines(FailureCause(text=""), text)
    for pattern, rule in _RULES:
        if found := re.search(pattern, cause.text):
            cause = rule(cause, found, evidence)
    return cause


def depends_on_logs(text: str) -> bool:
    """Return whether the lines of hosts decide on the words for a reported cause."""
    return any(rule in _READ_LOGS and re.search(pattern, text) for pattern, rule in _RULES)


def _with_lines(cause: FailureCause, text: str) -> FailureCause:
    first, *below = text.splitlines() or [""]
    return replace(cause, text=first, below=tuple(below))


def _without_own_type(cause: FailureCause, found: re.Match[str], _: CauseEvidence) -> FailureCause:
    return replace(cause, text=cause.text[found.end() :])


def _exit_words(cause: FailureCause, found: re.Match[str], _: CauseEvidence) -> FailureCause:
    """Return the text that a program gave to sys.exit, as it printed it."""
    literal = found["literal"]
    try:
        words = str(ast.literal_eval(literal)).strip() or literal
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # cut, or no text
        words = literal[1:-1]
    return _with_lines(cause, words)


def _exit_code(cause: FailureCause, found: re.Match[str], evidence: CauseEvidence) -> FailureCause:
    """Return the error that a program printed before it ended itself: argparse's, or its last."""
    printed = evidence.printed
    errors = [usage["text"] for line in printed if (usage := _USAGE_ERROR.match(line))]
    if found["code"] in _CLICK_CODES:
        last = printed[-AFTER_ERROR:]
        errors += [click["text"] for line in last if (click := _CLICK_ERROR.match(line))]
    if error := raised_error(last_traceback(printed)) or _exhaustion(printed):
        errors.append(error)
    code = f"exit code {found['code']}"
    return replace(cause, text=f"{errors[-1]} ({code})" if errors else code)


def _exhaustion(printed: Sequence[str]) -> str | None:
    """Return the last line if it tells that memory, descriptors or the disk have run out."""
    last = printed[-AFTER_ERROR:]
    return next((line.strip() for line in reversed(last) if _EXHAUSTED.search(line)), None)


def _program_error(cause: FailureCause, _: re.Match[str], evidence: CauseEvidence) -> FailureCause:
    """Return the error that a program beside the script has printed."""
    error = raised_error(evidence.printed) or _exhaustion(evidence.printed)
    return replace(cause, text=f"{error} ({cause.text})") if error else cause


def _crash(cause: FailureCause, _: re.Match[str], evidence: CauseEvidence) -> FailureCause:
    frames = crash_frames(evidence.printed)
    return replace(cause, below=(*cause.below, *frames), is_located=bool(frames))


def _error_of_process(
    cause: FailureCause, found: re.Match[str], evidence: CauseEvidence
) -> FailureCause:
    """Return the error of the process whose error PyTorch has raised again in the script's."""
    if evidence.raised is None:
        return cause
    return replace(cause, text=f"{evidence.raised} ({found['where'] or 'in a spawned process'})")


def _on_data_host(cause: FailureCause, found: re.Match[str], _: CauseEvidence) -> FailureCause:
    return replace(cause, text=cause.text[: found.start()], data_host=found["host"])


def _without_fix(cause: FailureCause, found: re.Match[str], _: CauseEvidence) -> FailureCause:
    """Return a cause without the fix in it, which is shown as advice."""
    return replace(cause, text=cause.text[: found.start("fix")] + cause.text[found.end("fix") :])


def _error_of_sample(cause: FailureCause, found: re.Match[str], _: CauseEvidence) -> FailureCause:
    doing = f"{found['what']} of {found['who']}"
    return replace(cause, text=f"{found['type']}: {found['text']}", doing=doing)


def _error_of_dataset(
    cause: FailureCause, found: re.Match[str], evidence: CauseEvidence
) -> FailureCause:
    """Return the error of a dataset as Python prints it, or as the cause quotes it."""
    raised = evidence.raised
    if raised and _type_of(raised) == found["type"]:
        error = raised
    elif found["text"] is not None:
        error = f"{found['type']}: {found['text']}"
    else:
        error = cause.text
    return replace(cause, text=error + (found["hint"] or ""), doing=found["what"])


def _type_of(error: str) -> str:
    """Return the type of "package.Error: text"."""
    return error.partition(":")[0].rpartition(".")[2]


def _deaths_of_workers(
    cause: FailureCause, found: re.Match[str], evidence: CauseEvidence
) -> FailureCause:
    """Return how data workers died; the host of the last one is the place."""
    if evidence.death is None:
        return cause
    host, how = evidence.death
    text = f"{how}, repeatedly: data workers died {found['when']}"
    return replace(cause, text=text, data_host=host)


_Rule = Callable[[FailureCause, re.Match[str], CauseEvidence], FailureCause]
#: Each rule whose pattern is found in the text changes the cause for those below it.
_RULES: tuple[tuple[str, _Rule], ...] = (
    (r"^launcher\.errors\.\w+: ", _without_own_type),
    ("^" + EXIT_CODE, _exit_code),
    (r"ended before training did: exit code \d+$", _program_error),
    (r"^the script called sys\.exit\((?P<literal>(['\"]).+\2)\)$", _exit_words),
    (r"^killed by SIG", _crash),
    (
        r"^[\w.]+: Caught \w+ (?P<where>in .+?)\.?$|^[\w.]*ProcessRaisedException\b",
        _error_of_process,
    ),
    (r" \(on data host (?P<host>algo-\d+)\)$", _on_data_host),
    (r" is None(?P<fix>: let the dataset return .*? leaves None out)", _without_fix),
    (
        r"^(?P<who>\S+|__getitems__ of \S+) raised (?P<type>\w+) for (?P<what>.*?): (?P<text>.*)$",
        _error_of_sample,
    ),
    (
        r"^(?P<what>the dataset \S+) could not be (?:imported|built): "
        r"(?P<type>\w+)\((?:(?P<quote>['\"])(?P<text>.*)(?P=quote)\)(?P<hint>; .*)?$)?",
        _error_of_dataset,
    ),
    (r"^data workers died repeatedly (?P<when>while .*?)(?:; the events .*)?$", _deaths_of_workers),
)
_READ_LOGS = (
    _exit_code,
    _program_error,
    _error_of_process,
    _error_of_dataset,
    _deaths_of_workers,
)

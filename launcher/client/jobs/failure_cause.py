"""Rules that turn a reported cause into the error that the program itself raised or printed.

Below them, advice after a failure, by its cause.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Sequence
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


#: Advice about missing files, about samples, and about the other hosts of a job.
OF_FILES = (
    "the job has the files of source_dir, without what .gitignore and .launcherignore match; "
    "data comes through channels (SM_CHANNEL_<NAME>)"
)
OF_SAMPLES = "let `__getitem__` return a value for each index: a branch of it may lack its return"
OF_HOSTS = "see the other hosts' logs: one of them may have ended first"
#: The first pattern that is found in a cause decides. {1} is its first group, {channels} the
#: channels of the job, as a text.
_ADVICE = (
    (
        r"No module named '[\w.]+'; '([\w.]+)' is not a package",
        "{1} is a module, not a package: if it is a file of yours, rename it",
    ),
    (
        r"No module named '(\w+\.[\w.]+)'",
        "the package is there, without {1}: compare its version; if it is yours, source_dir must "
        "have the file",
    ),
    (
        r"No module named '(\w+)'",
        "add {1} to requirements.txt, or use an image that has it; if it is a module of yours, "
        "source_dir must have it",
    ),
    (
        r"FileNotFoundError.*/opt/ml/input/data/([\w-]+)",
        "read channels from the folders that SM_CHANNEL_<NAME> names; the job has {channels}",
    ),
    (
        r"KeyError: 'SM_CHANNEL_(\w+)'",
        "add the channel to the inputs of the job, which has {channels}",
    ),
    (r"FileNotFoundError", OF_FILES),
    (
        r"Read-only file system|PermissionError.*/opt/ml/input",
        "channels are read-only: write to SM_MODEL_DIR, SM_OUTPUT_DATA_DIR or a temporary folder",
    ),
    (
        r"unrecognized arguments: (?:True|False)\b|unexpected extra arguments? \((?:True|False)\b",
        "true and false are passed as texts (--amp True), but an option with "
        "action='store_true' takes none: use type=lambda text: text == 'True'",
    ),
    (
        r"(?:unrecognized arguments:|No such option:?) -(\w)\b",
        "a hyperparameter with a name of one letter is passed with one dash: give its option the "
        "name -{1} too",
    ),
    (
        r"argument .*: invalid \w+ value: ''",
        "a hyperparameter that is null is passed as an empty text: leave it out",
    ),
    (
        r"unrecognized arguments|the following arguments are required|invalid choice|"
        r"^argument .*: (?:invalid \w+ value|expected )|^No such option|^Missing option|"
        r"^Invalid value for '-",
        "hyperparameters become the script's arguments: compare them with its options; "
        "batch_size and batch-size differ",
    ),
    (r"No space left on device|ENOSPC", "raise volume_size, or write less to the disk"),
    (
        r"CUDA out of memory|OutOfMemoryError",
        "use a smaller batch, or an instance type with more GPU memory",
    ),
    (
        r"OOM killer|memory was short|memory runs out|MemoryError|Cannot allocate memory|ENOMEM|"
        r"^data workers died .*killed by SIGKILL(?! \()",
        "memory has most likely run out: use a smaller batch, fewer workers (workers_per_host), or "
        "an instance type with more memory",
    ),
    (
        r"killed by SIGKILL",
        "find out what has killed the process: its own code, a person, or a limit of the "
        "machine such as ulimit -t",
    ),
    (
        r"Too many open files|EMFILE|ENFILE",
        "close files and sockets after use, or raise the limit: resource.setrlimit(RLIMIT_NOFILE, "
        "...); torch.multiprocessing.set_sharing_strategy('file_system') needs fewer",
    ),
    (
        r"can't start new thread|Resource temporarily unavailable",
        "use fewer threads and processes: num_workers, workers_per_host, OMP_NUM_THREADS",
    ),
    (
        r"killed by (SIGSEGV|SIGBUS|SIGABRT|SIGILL|SIGFPE)",
        "a native library has crashed: set PYTHONFAULTHANDLER: 1 in the job's environment to see "
        "the Python line that called it",
    ),
    (r"killed by SIGTERM", "find out what has sent SIGTERM to the process: Launcher has not"),
    (
        r"NCCL (?:built in|is only supported).*\(this machine has no GPU\)",
        "let the script choose the backend: init_process_group('nccl' if torch.cuda.is_available() "
        "else 'gloo')",
    ),
    (
        r"\(this machine has no GPU\)",
        "let the script choose its device: 'cuda' if torch.cuda.is_available() else 'cpu'; or run "
        "it on an instance type with a GPU",
    ),
    (
        r"No CUDA GPUs are available|not compiled with CUDA|CUDA driver version",
        "use an instance type with a GPU and an image of the same CUDA version",
    ),
    (
        r"(?:SyntaxError|IndentationError|TabError)",
        "correct the line; `launcher check` finds it too",
    ),
    (
        r"cannot import name (?!.*/ml/code/)",
        "compare the version of the package in the image with yours",
    ),
    (
        r"[Cc]an't pickle|cannot pickle",
        "move the function or class to the top of a module, so that a process can import it",
    ),
    (r"pip could not install", "try the same `pip install -r` in the job's image"),
    (r"no progress for", "see where each rank waits: its stacks are in the logs (-v)"),
    (r"Address already in use", "let the system choose a port, or use one that is not taken"),
    (r"NoneType|returned? None|is None|^[^\[]*\[.*\bNone\b", OF_SAMPLES),
    (r"Connection (?:refused|reset|closed)|NCCL|timed out", OF_HOSTS),
)
#: Packages whose names are not those of their modules.
_PACKAGES = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "git": "GitPython",
    "grpc": "grpcio",
    "hydra": "hydra-core",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "PyYAML",
}


#: What to try after a crash whose Python lines are known.
_LOCATED = "a native library has crashed: the last of these lines called it"


def advice(
    cause: str,
    channels: Collection[str],
    *,
    is_located: bool = False,
    unsuitable: Collection[str] = (),
) -> str | None:
    """Return what to try after a failure; None if there is nothing to advise.

    is_located: the lines of a crash are known. unsuitable: advice that is not for this failure.
    """
    names = ", ".join(f"SM_CHANNEL_{name.upper()}" for name in sorted(channels)) or "none"
    for pattern, text in _ADVICE:
        match = re.search(pattern, cause)
        if match is None or text in unsuitable:
            continue
        if is_located and "PYTHONFAULTHANDLER" in text:
            return _LOCATED
        found = match[1] if match.groups() else ""
        name = _PACKAGES.get(found, found) if "requirements.txt" in text else found
        return text.replace("{1}", name).replace("{channels}", names)
    return None

"""Advice after a failure, by its cause."""

from __future__ import annotations

import re
from collections.abc import Collection

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

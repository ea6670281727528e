"""Fuzz one target for some seconds, guided by its branches: `make fuzz`.

atheris runs libFuzzer, which ends the process: 0 without a finding, else its report and the input
in the folder fuzz-findings. The corpus grows in a folder of its own, of which no file is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import atheris
from fuzz_targets import TARGETS, FuzzTarget

#: No input may need more: seconds, and MB of the whole process.
_TIMEOUT, _MEMORY = 10, 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=300)
    chosen = parser.parse_args()
    fuzz(TARGETS[chosen.target], chosen.seconds)


def fuzz(target: FuzzTarget, seconds: int) -> None:
    """Run a target until the time is over; does not return."""
    with atheris.instrument_imports(include=list(target.modules)):
        seeds = target.seeds()
        for seed in seeds:  # imports what is read, with its branches
            target.read(seed)
    corpus = Path(tempfile.mkdtemp(prefix="launcher-corpus-"))
    for seed in seeds:
        (corpus / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={_TIMEOUT}",
        f"-rss_limit_mb={_MEMORY}",
        "-max_len=65536",
        "-print_final_stats=1",
        "-artifact_prefix=fuzz-findings/",
    ]
    atheris.Setup([sys.argv[0], *options, os.fspath(corpus)], target.read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Command line of checkpoints: python -m launcher.parallel.checkpoints export FOLDER FILE.

With --like, FILE is a folder for transformers' from_pretrained.
"""

from __future__ import annotations

import argparse
import sys

from launcher.errors import ParallelError
from launcher.parallel.checkpoints import export, export_pretrained


def main(given: list[str] | None = None) -> int:
    """Run the command and return its exit code. given: arguments; by default the command line's."""
    parser = argparse.ArgumentParser(prog="python -m launcher.parallel.checkpoints")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("export", help="write a checkpoint's model into one file")
    verb.add_argument("folder", help="of checkpoints, or one of them (step-N)")
    verb.add_argument("file", help="to write: .safetensors, or any other for torch.save")
    verb.add_argument(
        "--like",
        metavar="FOLDER",
        help="write a folder for from_pretrained, with the other files of this one",
    )
    arguments = parser.parse_args(given)
    try:
        if arguments.like is None:
            chosen = export(arguments.folder, arguments.file)
        else:
            chosen = export_pretrained(arguments.folder, arguments.file, like=arguments.like)
    except ParallelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.file}: the model of {chosen}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`launcher init`: write a first job into a folder, ready to run."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from launcher.client.cli.screen.verb_output import (
    echo,
    print_json,
    print_message,
    with_output_option,
)
from launcher.client.cli.verbs.first_job import JOB_FILE, SCRIPT, first_job
from launcher.errors import PlatformError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@with_output_option
def init(folder: Path, output: str) -> int:
    """Write a first job, ready to run.

    Its files go into FOLDER (default: the current one): job.yaml, pipeline.py and train.py. It
    trains a small network on synthetic data: one host trains, another prepares the batches. Editors
    complete job.yaml by .job.schema.json, which `launcher check --schema` prints. In a FOLDER that
    has a train.py, job.yaml runs that one, and no other script is written. Existing files are never
    overwritten.
    """
    texts = first_job(folder)
    existing = [name for name in texts if (folder / name).exists()]
    if existing:
        raise PlatformError(
            f"{folder.absolute()} already contains {', '.join(existing)}; nothing was written. "
            "Use another folder: launcher init FOLDER"
        )
    try:
        _write(folder, texts)
    except OSError as error:
        raise PlatformError(f"cannot write to {folder}: {error.strerror}") from error
    _print_next_steps(folder, is_example=SCRIPT in texts)
    if output == "json":
        print_json({"folder": str(folder.absolute()), "files": list(texts)})
    else:
        echo("\n".join(str(folder / name) for name in texts))
    return 0


def _write(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with (folder / name).open("x", encoding="utf-8") as written:
            written.write(text)


def _print_next_steps(folder: Path, *, is_example: bool) -> None:
    if is_example and find_spec("torch") is None:
        print_message(
            "train.py needs PyTorch and numpy, which the extra 'torch' of hetero-launcher installs"
        )
    job = shlex.quote(str(folder / JOB_FILE))
    print_message(f"Run it on this machine:\n  launcher run {job} --local")
    print_message(f"Check first that it can run here:\n  launcher check {job}")

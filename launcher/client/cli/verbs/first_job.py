"""The files of a first job, by name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from launcher.client.spec import assume_job, schema_text

JOB_FILE = "job.yaml"
SCRIPT = "train.py"
#: The files to write, and the packaged text of each.
_STARTER = {
    JOB_FILE: "job.yaml.txt",
    "pipeline.py": "pipeline.py.txt",
    SCRIPT: "train.py.txt",
    ".launcherignore": "launcherignore.txt",
}
#: The schema that job.yaml names for editors.
_SCHEMA = ".job.schema.json"


def first_job(folder: Path) -> dict[str, str]:
    """Return the texts to write into a folder: an example, or what its own script lacks."""
    script = folder / SCRIPT
    return _job_of(script) if script.is_file() else _example()


def _example() -> dict[str, str]:
    """Return the texts of the example's files, by name."""
    packaged = files("launcher.client.cli") / "starter"
    texts = {name: (packaged / text).read_text("utf-8") for name, text in _STARTER.items()}
    return {**texts, _SCHEMA: schema_text()}


def _job_of(script: Path) -> dict[str, str]:
    """Return the texts of what a folder with a script lacks: its job file, and what goes with it.

    Its .launcherignore and its schema are left as they are, if it has them.
    """
    job = assume_job(
        script, instance_type=None, data_type=None, has_data_group=False, home=script.parent
    )
    example = _example()
    others = (".launcherignore", _SCHEMA)
    missing = {name: example[name] for name in others if not (script.parent / name).exists()}
    return {JOB_FILE: example[JOB_FILE].splitlines(keepends=True)[0] + job.to_yaml(), **missing}

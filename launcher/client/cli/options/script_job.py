"""JOB_FILE of `launcher run`: a job file, or a script and options that stand for one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from launcher.client.cli.options.shared_options import gathered, job_file_options
from launcher.client.cli.screen.verb_output import print_message
from launcher.client.spec import (
    JobSpec,
    LimitExceeded,
    anchored,
    assume_job,
    is_script,
    read_bounded,
)
from launcher.errors import PlatformError
from launcher.shared import FROM_ENVIRONMENT

#: The value of --data-group without one.
_ANY_TYPE = "any"


@dataclass(frozen=True, kw_only=True)
class DescribedJob:
    """The words of a command line that describe a job.

    job_file: a job file, or a script. instance_type, data_group, save: None where not given.
    """

    job_file: Path
    changes: tuple[str, ...]
    variables: dict[str, str]
    secrets: dict[str, str]
    instance_type: str | None
    data_group: str | None
    save: Path | None

    def read(self) -> JobSpec:
        """Return the job; show the job file that a script stands for, and save it if wanted.

        Raises SpecError for a job with problems, and PlatformError for a file that exists.
        """
        if self.data_group and is_script(Path(self.data_group)):
            what = f"{self.data_group} is read as the TYPE of --data-group"
            raise click.UsageError(f"{what}: launcher run {self.data_group} --data-group")
        spec = self._assumed() if is_script(self.job_file) else self._written()
        return dataclasses.replace(
            spec,
            environment={**spec.environment, **self.variables},
            secrets={**spec.secrets, **self.secrets},
        )

    def _written(self) -> JobSpec:
        given = {
            "--instance-type": self.instance_type,
            "--data-group": self.data_group,
            "--save": self.save,
        }
        for option, value in given.items():
            if value is not None:
                what = f"{option} goes with a script; a job file has its own instance groups"
                raise click.UsageError(f"{what}: {self.job_file}")
        from launcher.client.request import read_job

        return read_job(self.job_file, self.changes)

    def _assumed(self) -> JobSpec:
        home = self.save.parent if self.save else Path()
        spec = assume_job(
            self.job_file,
            instance_type=self.instance_type,
            data_type=None if self.data_group == _ANY_TYPE else self.data_group,
            has_data_group=self.data_group is not None,
            home=home,
            changes=self.changes,
        )
        text = spec.to_yaml()
        if self.save:
            _save(text, self.save)
        kept = f", now in {self.save}" if self.save else " (--save FILE keeps it)"
        print_message(f"{self.job_file} without a job file: assumed this one{kept}")
        print_message("\n".join(f"  {line}" for line in text.splitlines()))
        return anchored(spec, home)


def _save(text: str, file: Path) -> None:
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        what = f"{file} exists, and was not overwritten"
        raise PlatformError(f"{what}: give --save another name, or run it as it is") from None
    except OSError as error:
        raise PlatformError(f"cannot write {file}: {error.strerror}") from error


def _read_secrets(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """Return the source of each secret; the rules refuse a bare value."""
    pairs = (text.partition("=") for text in given)
    return {name: source if sign else FROM_ENVIRONMENT for name, sign, source in pairs}


def _keep_file(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    context.meta[__name__] = file


def _read_variables(
    context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    file: Path | None = context.meta.get(__name__)
    return dict([*(() if file is None else _of_file(file)), *map(_pair, given)])


def _of_file(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables of a file; "#" begins a comment, quotes around a value are dropped.

    A line that has none may be part of a secret, and is not shown.
    """
    try:
        content = read_bounded(file).removeprefix("\ufeff")
    except (LimitExceeded, OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(content.split("\n"), start=1):
        text = line.strip().removeprefix("export ")
        if text and not text.startswith("#"):
            name, sign, written = text.partition("=")
            if not sign or not name.strip():
                raise click.BadParameter(f"{file}:{number} is no NAME=VALUE: a value has one line")
            value = written.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            yield name.strip(), value[1:-1] if is_quoted else value


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.BadParameter(f"{text!r} in --env is no NAME=VALUE")
    return name.strip(), value


#: JOB_FILE and all options that change it, which a verb gets as one `described`.
described_job_options = gathered(
    "described",
    DescribedJob,
    click.option(
        "--env-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        is_eager=True,  # read before --env, which overrides it
        expose_value=False,
        callback=_keep_file,
        help="Add the variables of a file to the environment, one NAME=VALUE a line.",
    ),
    click.option(
        "--env",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_read_variables,
        help="Add a variable to the job's environment. Repeatable.",
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME[=ARN]",
        multiple=True,
        callback=_read_secrets,
        help="Add a secret variable, of your environment or of AWS Secrets Manager. Repeatable.",
    ),
    job_file_options,
    click.option(
        "--instance-type",
        metavar="TYPE",
        help="With a script: the type of the host that runs it [default: this machine].",
    ),
    click.option(
        "--data-group",
        metavar="[TYPE]",
        is_flag=False,
        flag_value=_ANY_TYPE,
        help="With a script: add a host that prepares its batches. Without TYPE, of a small type.",
    ),
    click.option(
        "--save",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="With a script: write the assumed job file.",
    ),
)

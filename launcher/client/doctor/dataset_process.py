"""A process that reads datasets on this machine, on a copy of a job's code."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher.client.doctor.dataset_names import NamedDataset
from launcher.client.request import SourceFile
from launcher.client.sessions import module_command, module_environment
from launcher.client.spec import JobSpec, is_channel_name
from launcher.shared import ML_ROOT_VARIABLE, MlPaths

_PROGRAM = "launcher.data.dataset_check"
_FILE_SCHEME = "file://"


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """The bounds of what is read: samples of each dataset, and seconds for them.

    build_seconds: for a dataset's imports and until its first sample, beside `seconds`.
    """

    samples: int
    seconds: float
    build_seconds: float = 120.0

    @property
    def patience(self) -> float:
        """Seconds after which a dataset has hung."""
        return 2 * self.seconds + self.build_seconds


@dataclass(frozen=True, kw_only=True)
class DatasetCopy:
    """A copy of a job's code, with its channels.

    elsewhere: the names of channels that are not on this machine.
    """

    spec: JobSpec
    paths: MlPaths
    elsewhere: Sequence[str]

    def ask(
        self,
        dataset: NamedDataset,
        limits: ReadLimits,
        served: Sequence[str],
        arguments: Sequence[str] = (),
    ) -> Mapping[str, Any]:
        """Have a process read a dataset, and return its answer as plain values.

        served: the datasets that the job lists. arguments: of the process, for what it is to do.
        Whatever ends the wait, Ctrl-C included, ends the process.
        """
        output = self.paths.root / "answer.json"
        output.unlink(missing_ok=True)
        with self.started(dataset, limits, served, output, *arguments) as process:
            try:
                # Twice, as a second process reads the samples again; neither hangs for longer.
                process.wait(timeout=2 * limits.patience + 60)
            except subprocess.TimeoutExpired:
                return {"problem": "the process that reads it did not answer, and was killed"}
        if not output.exists():
            return {"problem": _how_it_ended(process.returncode, _log(output))}
        answer: Mapping[str, Any] = json.loads(output.read_text())
        return answer

    @contextmanager
    def started(
        self,
        dataset: NamedDataset,
        limits: ReadLimits,
        served: Sequence[str],
        output: Path,
        *arguments: str,
        rounds: Sequence[int] = (),
    ) -> Iterator[subprocess.Popen[str]]:
        """Yield a process that reads a dataset and writes its answer to `output`, then end it.

        rounds: of a measurement of rates.
        """
        request = {
            "dataset": dataset.reference,
            "loader": dataset.loader,
            "samples": limits.samples,
            "seconds": limits.seconds,
            "patience": limits.patience,
            "served": list(served),
            "entry_point": self.spec.entry_point,
            "output": str(output),
            "rounds": list(rounds),
        }
        question = output.with_suffix(".request")
        question.write_text(json.dumps(request))
        with question.open() as asked, _log(output).open("w") as written:
            process = subprocess.Popen(
                module_command(_PROGRAM, *arguments),
                stdin=asked,
                stdout=written,
                stderr=subprocess.STDOUT,
                text=True,
                cwd="/",
                env=self._environment(),
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _environment(self) -> dict[str, str]:
        """Return the job's own environment variables, and those of its channels and of Python."""
        folders = self.paths.channels.iterdir()
        channels = {f"SM_CHANNEL_{each.name.upper()}": str(each) for each in folders}
        own = {**self.spec.environment, **channels, ML_ROOT_VARIABLE: str(self.paths.root)}
        return {**own, **module_environment(), "PYTHONHASHSEED": "0"}


@contextmanager
def dataset_copy(spec: JobSpec, files: Iterable[SourceFile]) -> Iterator[DatasetCopy]:
    """Copy a job's files, and link the channels that are folders of this machine."""
    with TemporaryDirectory(prefix="launcher-check-") as folder:
        paths = MlPaths(Path(folder))
        paths.code.mkdir(parents=True)
        for file in files:
            target = paths.code / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.origin, target)
        yield DatasetCopy(spec=spec, paths=paths, elsewhere=tuple(_link_channels(spec, paths)))


def at_home(problem: str, code: str) -> str:
    """Return a text with the paths of the user's own folder in place of its copy's."""
    return re.sub(r'[^" ]*/launcher-check-\w+/code/', lambda _: code, problem)


def _link_channels(spec: JobSpec, paths: MlPaths) -> Iterator[str]:
    """Make the channels of this machine's folders; yield the names of those that are elsewhere.

    A channel whose name the rules refuse is left out: it could lead out of the copy.
    """
    paths.channels.mkdir(parents=True)
    for name, channel in spec.inputs.items():
        if not is_channel_name(name):
            continue
        uri = getattr(channel, "s3_data", "")
        if uri.startswith(_FILE_SCHEME):
            (paths.channels / name).symlink_to(Path(uri.removeprefix(_FILE_SCHEME)).absolute())
        else:
            yield name


def _log(output: Path) -> Path:
    """Return the file for all that the process of an answer prints."""
    return output.with_suffix(".log")


def _how_it_ended(code: int, log: Path) -> str:
    how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    return "\n".join([f"the process that reads it ended with {how}", *last])

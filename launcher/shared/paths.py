"""Paths and ports inside an instance: the folders below /opt/ml, the code channel, the ports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_ML_ROOT = Path("/opt/ml")
#: Names the ML root if it is not /opt/ml (the training toolkit's own variable).
ML_ROOT_VARIABLE = "SAGEMAKER_BASE_DIR"


@dataclass(frozen=True)
class MlPaths:
    """The folders that SageMaker documents for a training container, below one root."""

    root: Path = DEFAULT_ML_ROOT

    @property
    def code(self) -> Path:
        """The user's code, unpacked from the bundle."""
        return self.root / "code"

    @property
    def library(self) -> Path:
        """Launcher's code for hosts, unpacked from the bundle; it is on PYTHONPATH."""
        return self.root / "lib"

    @property
    def input(self) -> Path:
        """The folder of configuration and channels."""
        return self.root / "input"

    @property
    def config(self) -> Path:
        """The folder of the platform's JSON files."""
        return self.root / "input" / "config"

    @property
    def channels(self) -> Path:
        """The folder that has one folder per channel."""
        return self.root / "input" / "data"

    @property
    def model(self) -> Path:
        """The folder that becomes the job's model artifact."""
        return self.root / "model"

    @property
    def output(self) -> Path:
        """The folder of the failure file and other output."""
        return self.root / "output"

    @property
    def output_data(self) -> Path:
        """The folder that becomes the job's output artifact."""
        return self.root / "output" / "data"

    @property
    def output_intermediate(self) -> Path:
        """The toolkit's folder for intermediate output."""
        return self.root / "output" / "intermediate"

    @property
    def failure(self) -> Path:
        """The file whose first 1,024 characters become the job's FailureReason."""
        return self.root / "output" / "failure"

    @property
    def events(self) -> Path:
        """The file of the host's events: whole lines, appended by each of its processes."""
        return self.root / "output" / ".launcher-events"

    @property
    def terminal(self) -> Path:
        """The file of `launcher run --debug`: locked while the rank runs, then its exit code."""
        return self.root / "output" / ".launcher-terminal"

    @property
    def checkpoints(self) -> Path:
        """The platform's default folder for checkpoints."""
        return self.root / "checkpoints"


# The code channel ------------------------------------------------------------------------------

CODE_CHANNEL = "code"
LAUNCH_SCRIPT = "launch.py"
BUNDLE_FILE = "bundle.tar.gz"
DOCUMENT_FILE = "launcher.json"
#: The file in the source folder whose packages are installed before the script starts.
REQUIREMENTS_FILE = "requirements.txt"
#: The file with the cuts of the model, in jobs that have one.
PARTITION_FILE = "partition.json"
#: The two top folders of the bundle, unpacked into the ML root: the user's code and our job world.
BUNDLE_CODE = "code"
BUNDLE_LIBRARY = "lib"
#: The parts of the package that ship with a job (paths below launcher/).
JOB_WORLD = (
    "__init__.py",
    "errors.py",
    "shared",
    "runtime",
    "data",
    "parallel",
    "trainers",
)

#: Start of the container: no shell, no toolkit, and SIGTERM reaches us.
CONTAINER_ENTRYPOINT = ("python3", f"/opt/ml/input/data/{CODE_CHANNEL}/{LAUNCH_SCRIPT}")


@dataclass(frozen=True)
class Ports:
    """The TCP ports of a job; one host listens on each at most once."""

    base: int = 7770

    @property
    def dispatcher(self) -> int:
        """The control port of the data service, on the leader."""
        return self.base

    @property
    def receiver(self) -> int:
        """The bulk data port, on every train host."""
        return self.base + 1

    @property
    def coordination(self) -> int:
        """The port of the job coordination, on the leader."""
        return self.base + 2

    @property
    def start(self) -> int:
        """The port on which a train host starts MPI's daemon when the leader asks for it."""
        return self.base + 3

    @property
    def tf_dispatcher(self) -> int:
        """The port of tf.data's dispatcher, on the leader."""
        return self.base + 8

    @property
    def tf_worker(self) -> int:
        """The port of the first of tf.data's workers; the others have those after it."""
        return self.base + 12_000

    @property
    def rendezvous(self) -> int:
        """The port of torchrun's store, on the leader (port 7777, as in SageMaker's images)."""
        return self.base + 7

    @property
    def tensorflow(self) -> int:
        """The first port of TensorFlow's servers: two per host, which tf_config numbers."""
        return self.base + 20

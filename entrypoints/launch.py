"""The one script that every host of a job runs.

It unpacks the code that came with the job. The runtime then reads the environment, runs the host's
role, and returns an exit code that reflects the outcome. Nothing is installed and no network is
needed: the bundle holds the user's code and all of Launcher that a job uses.
"""

import os
import shutil
import sys
import tarfile
from pathlib import Path

ROOT = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))


def unpack(bundle: Path) -> None:
    """Unpack the user's code to /opt/ml/code and ours to /opt/ml/lib."""
    with tarfile.open(bundle) as archive:
        check_space(archive)
        if hasattr(tarfile, "data_filter"):  # Python >= 3.10.12: refuse links out of the tree
            archive.extractall(ROOT, filter="data")
        else:
            archive.extractall(ROOT)


def check_space(archive: tarfile.TarFile) -> None:
    """End this host, with its reason, if the bundle has more than fits on its disk."""
    free, size = shutil.disk_usage(ROOT).free, 0
    for member in archive:
        size += member.size
        if size > free:
            reason = f"the bundle unpacks to more than the {free // 1_000_000} MB free at {ROOT}"
            (ROOT / "output" / "failure").write_text(reason)
            sys.exit(reason)


def main() -> int:
    """Run this host and return its exit code."""
    unpack(ROOT / "input" / "data" / "code" / "bundle.tar.gz")
    sys.path.insert(0, str(ROOT / "lib"))
    from launcher.runtime.main import run  # it exists only after unpacking

    return run(ROOT)


if __name__ == "__main__":
    sys.exit(main())

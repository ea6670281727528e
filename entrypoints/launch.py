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
        check(archive)
        if hasattr(tarfile, "data_filter"):  # Python >= 3.10.12 warns where none is named
            archive.extractall(ROOT, filter="data")
        else:
            archive.extractall(ROOT)


def check(archive: tarfile.TarFile) -> None:
    """Refuse a bundle that does not fit on the disk, and what no bundle has: links, paths out."""
    free, size = shutil.disk_usage(ROOT).free, 0
    for member in archive:
        size += member.size
        if size > free:
            refuse(f"the bundle unpacks to more than the {free // 1_000_000} MB free at {ROOT}")
        place = Path(os.path.normpath(ROOT / member.name))
        if not (member.isfile() or member.isdir()) or not place.is_relative_to(ROOT):
            refuse(f"the bundle has {member.name}, which is no file below its folder")


def refuse(reason: str) -> None:
    """End this host with its reason."""
    (ROOT / "output" / "failure").write_text(reason)
    sys.exit(reason)


def main() -> int:
    """Run this host and return its exit code."""
    unpack(ROOT / "input" / "data" / "code" / "bundle.tar.gz")
    sys.path.insert(0, str(ROOT / "lib"))
    from launcher.runtime import run  # it exists only after unpacking

    return run(ROOT)


if __name__ == "__main__":
    sys.exit(main())

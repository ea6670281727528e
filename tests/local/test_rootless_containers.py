"""Jobs in containers of an ordinary user, whose root is that user outside.

The user, who may open the devices that Podman needs, is one of a mount namespace alone: nothing of
this machine is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from containers import ENGINE, NUMPY_IMAGE
from needs import skip_without_isolation
from users import report_of, run_as

pytestmark = pytest.mark.library("containers")

NAME, NUMBER = "launcher-rootless", 47_110
#: Becomes the user, in $1 as home, and runs the other words.
BECOMES = f"""
set -e
home=$1; shift
mount --make-rprivate / && mount --make-rshared /
for file in passwd group subuid subgid; do
  touch /etc/$file && cat /etc/$file > $home/$file
done
echo "{NAME}:x:{NUMBER}:{NUMBER}::$home:/bin/sh" >> $home/passwd
echo "{NAME}:x:{NUMBER}:" >> $home/group
for file in subuid subgid; do echo "{NAME}:4711000:65536" >> $home/$file; done
for file in passwd group subuid subgid; do mount --bind $home/$file /etc/$file; done
for device in fuse net/tun; do
  cp -a /dev/$device $home/device && chmod 666 $home/device
  mount --bind $home/device /dev/$device && rm -f $home/device
done
export HOME=$home LAUNCHER_HOME=$home/job XDG_RUNTIME_DIR=$home/run
export CONTAINERS_CONF=$home/containers.conf
cd $home
exec runuser -u {NAME} -- "$@"
"""


@pytest.fixture
def user() -> Iterator[list[str]]:
    """The words before a command of the user, whose Podman has the image."""
    skip_without_isolation("container")
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for program in ("newuidmap", "slirp4netns", "unshare", "runuser"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: apt-get install uidmap slirp4netns util-linux")
    with TemporaryDirectory(prefix="launcher-rootless-", dir="/tmp") as folder:
        home = Path(folder)
        given = Path(os.environ.get("CONTAINERS_CONF", os.devnull))
        settings = given.read_text().replace(f"{given.parent}/", f"{home}/")
        (home / "containers.conf").write_text(settings)
        if (wrapper := given.with_name("runc-plain")).exists():
            shutil.copy(wrapper, home)
        for name in ("run", "job"):
            (home / name).mkdir(mode=0o700)
        for path in (home, *home.iterdir()):
            os.chown(path, NUMBER, NUMBER)
        become = ["unshare", "--mount", "sh", "-c", BECOMES, "sh", folder]
        try:
            with subprocess.Popen([ENGINE, "save", NUMPY_IMAGE], stdout=subprocess.PIPE) as saves:
                load = subprocess.run(
                    [*become, ENGINE, "load"], stdin=saves.stdout, capture_output=True, text=True
                )
            if load.returncode != 0:
                pytest.skip(f"a user's podman does not work here: {load.stderr.strip()}")
            yield become
        finally:
            subprocess.run([*become, ENGINE, "system", "reset", "--force"], capture_output=True)
            Path(f"/dev/shm/libpod_rootless_lock_{NUMBER}").unlink(missing_ok=True)


def test_hosts_run_in_containers_of_an_ordinary_user(user: list[str]) -> None:
    found = report_of("rootless_scenario.py", partial(run_as, user))
    assert found["status"] == "Completed", found
    for host, lines in found["lines"].items():
        assert json.loads(lines[-1]) == [0, host, "eth0"]
    assert found["notes"] == []
    assert found["owned"] == {"mine": True, "model.tar.gz": True}
    assert found["left"] == []

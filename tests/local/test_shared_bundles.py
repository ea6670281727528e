"""Bundles of jobs with the same code take the space of one, and each job has its own content."""

import stat
import subprocess
import sys

import pytest

from launcher.client.sessions import LocalSession, uri_of

STORE = """\
import sys
from pathlib import Path
from launcher import LocalSession
from launcher.client.sessions.local.storage.file_uris import uri_of

root = Path(sys.argv[1])
session = LocalSession(root=root)
for number in range(40):
    uri = uri_of(root / "storage" / f"{sys.argv[2]}-{number}" / "bundle.tar.gz")
    session.upload(bytes([number]) * 100_000, uri, shared=f"file:///bundles/{number}.tar.gz")
"""


@pytest.fixture
def session(tmp_path):
    return LocalSession(root=tmp_path / "root")


@pytest.fixture
def store(session):
    """Store a bundle for a job; return its path."""

    def stored(job, content, name="hash.tar.gz"):
        path = session.root / "storage" / job / "bundle.tar.gz"
        session.upload(content, uri_of(path), shared=f"file:///elsewhere/{name}")
        return path

    return stored


def test_the_same_content_is_one_read_only_file(store):
    first, second = store("a", b"code"), store("b", b"code")
    assert first.read_bytes() == second.read_bytes() == b"code"
    assert first.stat().st_ino == second.stat().st_ino
    assert stat.S_IMODE(first.stat().st_mode) == 0o400
    assert store("a", b"code") == first  # once more, to where it is
    assert [each.name for each in first.parent.iterdir()] == ["bundle.tar.gz"]


@pytest.mark.parametrize("damaged", [b"cod", b"evil"])
def test_content_that_was_changed_is_not_used(session, store, damaged):
    first = store("a", b"code")
    first.chmod(0o600)
    first.write_bytes(damaged)
    second = store("b", b"code")
    assert second.read_bytes() == b"code"
    assert store("c", b"code").stat().st_ino == second.stat().st_ino


def test_where_no_bundle_can_be_kept_each_job_has_its_own(session, store):
    session.root.mkdir()
    (session.root / "bundles").write_text("a file where the folder would be")
    assert store("a", b"code").read_bytes() == store("b", b"code").read_bytes() == b"code"


def test_processes_that_store_the_same_bundles_at_once(tmp_path):
    command = [sys.executable, "-c", STORE, str(tmp_path)]
    clients = [subprocess.Popen([*command, f"client{n}"]) for n in range(4)]
    assert [client.wait(timeout=300) for client in clients] == [0] * 4
    for path in tmp_path.glob("storage/*/*"):
        number = int(path.parent.name.rpartition("-")[2])
        assert path.name == "bundle.tar.gz"
        assert path.read_bytes() == bytes([number]) * 100_000
    assert len(list(tmp_path.glob("storage/*/*"))) == 160
    assert len(list((tmp_path / "bundles").iterdir())) == 40

"""Checkpoint folders of hosts and their store, without a job: what is copied, and when."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from waiting import wait_until

from launcher.client.sessions import CheckpointSync, FolderStore, HostFolder

PATH = "/opt/ml/checkpoints"


class Hosts:
    """Two hosts and a store of their own."""

    def __init__(self, root: Path) -> None:
        self.store = root / "store"
        self.store.mkdir()
        self.hosts = [HostFolder(root / "hosts" / name) for name in ("algo-1", "algo-2")]
        self.first, self.second = (host.ml.root / "checkpoints" for host in self.hosts)
        self.sync = CheckpointSync(FolderStore(f"file://{self.store}"), PATH, self.hosts)
        self.sync.restore()

    def stored(self) -> dict[str, str]:
        """What is in the store: the text of each file, and of each link what it names."""
        return {
            str(path.relative_to(self.store)): f"-> {path.readlink()}"
            if path.is_symlink()
            else path.read_text()
            for path in self.store.rglob("*")
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_every_host_begins_with_what_is_stored(tmp_path: Path) -> None:
    (tmp_path / "store" / "step-1").mkdir(parents=True)
    (tmp_path / "store" / "step-1" / "weights").write_text("1")
    (tmp_path / "store" / "latest").symlink_to("step-1")
    store = FolderStore(f"file://{tmp_path / 'store'}")
    hosts = [HostFolder(tmp_path / "hosts" / name) for name in ("algo-1", "algo-2")]
    before = (tmp_path / "store" / "step-1" / "weights").stat().st_ino
    sync = CheckpointSync(store, PATH, hosts)
    sync.restore()
    for host in hosts:
        folder = host.ml.root / "checkpoints"
        assert (folder / "step-1" / "weights").read_text() == "1"
        assert str((folder / "latest").readlink()) == "step-1"
    with sync:
        pass
    after = (tmp_path / "store" / "step-1" / "weights").stat().st_ino
    assert after == before, "what was restored is not stored again"
    assert sync.problem is None


def test_the_last_files_are_stored_when_the_hosts_have_ended(hosts: Hosts) -> None:
    with hosts.sync:
        (hosts.first / "step-1").mkdir()
        (hosts.first / "step-1" / "a").write_text("of the first")
        (hosts.second / "b").write_text("of the second")
    assert hosts.stored() == {"step-1/a": "of the first", "b": "of the second"}
    assert hosts.sync.problem is None
    assert hosts.sync.outside == set()


def test_files_are_stored_while_the_hosts_run_and_again_when_they_change(hosts: Hosts) -> None:
    with hosts.sync:
        (hosts.first / "a").write_text("1")
        wait_until(lambda: hosts.stored() == {"a": "1"})
        (hosts.first / "a").write_text("22")
        wait_until(lambda: hosts.stored() == {"a": "22"})
        (hosts.first / "a").unlink()
    assert hosts.stored() == {"a": "22"}, "nothing is deleted in the store"


def test_a_link_to_a_checkpoint_stays_a_link_and_follows_the_next_one(hosts: Hosts) -> None:
    with hosts.sync:
        (hosts.first / "ckpt-8").mkdir()
        (hosts.first / "ckpt-8" / "weights").write_text("8")
        (hosts.first / "latest").symlink_to("ckpt-8")
        (hosts.first / "chain").symlink_to(hosts.first / "latest")
    links = {"latest": "-> ckpt-8", "chain": "-> ckpt-8"}
    assert hosts.stored() == {"ckpt-8/weights": "8", **links}


def test_a_link_is_changed_after_what_it_names(hosts: Hosts) -> None:
    (hosts.first / "ckpt-8").write_text("8")
    (hosts.first / "latest").symlink_to("ckpt-8")
    with hosts.sync:
        wait_until(lambda: hosts.stored().get("latest") == "-> ckpt-8")
        (hosts.first / "ckpt-9").write_text("9")
        (hosts.first / "latest").unlink()
        (hosts.first / "latest").symlink_to("ckpt-9")
    assert hosts.stored() == {"ckpt-8": "8", "ckpt-9": "9", "latest": "-> ckpt-9"}


def test_a_link_to_elsewhere_in_the_host_is_what_it_shows(hosts: Hosts) -> None:
    elsewhere = hosts.hosts[0].ml.root / "elsewhere"
    (elsewhere / "inner").mkdir(parents=True)
    (elsewhere / "inner" / "weights").write_text("w")
    (hosts.first / "folder").symlink_to(elsewhere)
    (hosts.first / "file").symlink_to(elsewhere / "inner" / "weights")
    with hosts.sync:
        wait_until(lambda: "folder/inner/weights" in hosts.stored())
        (elsewhere / "inner" / "weights").rename(elsewhere / "inner" / "renamed")
        (hosts.first / "file").unlink()
    assert hosts.stored() == {"folder/inner/renamed": "w", "file": "w"}, "the folder is replaced"


def test_a_link_out_of_the_host_is_named_and_not_stored(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the machine")
    (hosts.first / "out").symlink_to(tmp_path / "secret")
    (hosts.first / "nowhere").symlink_to("absent")
    (hosts.first / "around").symlink_to("..")
    (hosts.first / "itself").symlink_to(".")
    (hosts.first / "circle").symlink_to("circle")
    with hosts.sync:
        (hosts.first / "a").write_text("1")
    assert hosts.stored() == {"a": "1", "itself": "-> ."}
    assert hosts.sync.outside == {"out", "around"}


def test_a_file_that_cannot_be_stored_is_the_problem_and_the_others_are_stored(
    hosts: Hosts,
) -> None:
    (hosts.store / "taken").mkdir()
    (hosts.store / "taken" / "x").write_text("x")
    with hosts.sync:
        (hosts.first / "taken").write_text("a file where the store has a folder")
        (hosts.first / "zebra").write_text("z")
    assert hosts.stored() == {"taken/x": "x", "zebra": "z"}
    assert hosts.sync.problem is not None
    assert str(hosts.store) in hosts.sync.problem


def test_a_stored_link_never_names_a_part_of_a_checkpoint(hosts: Hosts) -> None:
    """A link is stored after the files that it names, and replaces a folder as a whole."""
    for folder in (hosts.store, hosts.first):
        (folder / "latest").mkdir()
        (folder / "latest" / "old").write_text("0")
    growing = hosts.first / "ckpt-1" / "growing"
    with hosts.sync:
        shutil.rmtree(hosts.first / "latest")
        (hosts.first / "ckpt-1").mkdir()
        (hosts.first / "latest").symlink_to("ckpt-1")
        (hosts.first / "ckpt-1" / "weights").write_text("1")

        def is_stored() -> bool:
            growing.write_text(str(time.time()))
            return "ckpt-1/weights" in hosts.stored()

        wait_until(is_stored)
        assert hosts.stored() == {"latest/old": "0", "ckpt-1/weights": "1"}
    assert hosts.stored() == {
        "latest": "-> ckpt-1",
        "ckpt-1/weights": "1",
        "ckpt-1/growing": growing.read_text(),
    }


def test_a_folder_in_place_of_a_stored_link_is_a_folder(hosts: Hosts) -> None:
    (hosts.first / "ckpt-1").write_text("1")
    (hosts.first / "latest").symlink_to("ckpt-1")
    with hosts.sync:
        wait_until(lambda: hosts.stored().get("latest") == "-> ckpt-1")
        (hosts.first / "latest").unlink()
        (hosts.first / "latest").mkdir()
        (hosts.first / "latest" / "step").write_text("2")
    assert hosts.stored() == {"ckpt-1": "1", "latest/step": "2"}


def test_a_file_is_stored_when_it_is_complete(hosts: Hosts) -> None:
    with hosts.sync:
        with (hosts.first / "big").open("w") as file:
            for _ in range(40):
                file.write("x" * 1000)
                file.flush()
                time.sleep(0.05)  # over two rounds
                assert hosts.stored() == {}
        wait_until(lambda: hosts.stored() == {"big": "x" * 40_000})

"""Source folders that may have been chosen by mistake, and large ones."""

import tracemalloc

import pytest

from launcher.client.request import SourceTree, build_bundle

GIGABYTE = 10**9


def doubts(source, **fields):
    return SourceTree(source.spec(**fields)).doubts


def test_an_ordinary_folder_raises_no_doubt(source):
    source.write_all({"a/b.py": "", ".git/HEAD": "", "sub/.git": "gitdir: ../.git/modules/sub"})
    assert doubts(source) == ()


def test_a_folder_in_a_repository_may_have_repositories(source):
    (source.root.parent / ".git").mkdir()
    source.write_all({"vendored/.git/HEAD": ""})
    assert doubts(source) == ()


@pytest.mark.parametrize("home", [".", "me"], ids=["it", "around it"])
def test_a_home_folder_is_doubtful(source, monkeypatch, home):
    (source.root / "me").mkdir()
    monkeypatch.setenv("HOME", str(source.root / home))
    (doubt,) = doubts(source)
    assert "is a home folder" in doubt


def test_a_folder_of_a_home_folder_is_not(source, monkeypatch):
    monkeypatch.setenv("HOME", str(source.root.parent))
    assert doubts(source) == ()


@pytest.mark.parametrize("repository", ["one/.git/HEAD", "a/b/.hg/store", "one/.git"])
def test_a_folder_of_repositories_is_doubtful(source, repository):
    source.write_all({repository: ""})
    (doubt,) = doubts(source)
    assert "is a repository in a source folder that is in none" in doubt


def test_more_than_a_gigabyte_is_doubtful(source):
    with (source.root / "big").open("wb") as file:
        file.truncate(GIGABYTE)
    (doubt,) = doubts(source)
    assert "has 1.0 GB" in doubt


def test_a_home_folder_among_the_dependencies_is_doubtful(source, monkeypatch, tmp_path):
    near = tmp_path / "near"
    near.mkdir()
    monkeypatch.setenv("HOME", str(near))
    assert "is a home folder" in doubts(source, dependencies=[str(near)])[0]


def test_an_archive_is_never_whole_in_memory(source, tmp_path):
    with (source.root / "big").open("wb") as file:
        file.truncate(64 << 20)
    bundle = build_bundle(source.spec())
    seen = []
    tracemalloc.start()
    bundle.write(tmp_path / "bundle.tar.gz", lambda *counted: seen.append(counted))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert seen[-1][0] == seen[-1][1] > 64 << 20
    assert len(seen) > 1000, "it is reported within a file"
    assert [packed for packed, _ in seen] == sorted(packed for packed, _ in seen)

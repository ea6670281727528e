"""Naming a job: verbs that read take the newest or the beginning of a name, others do not."""

import pytest


@pytest.fixture(autouse=True)
def here(terminal, jobs, monkeypatch):
    monkeypatch.chdir(terminal.folder)


@pytest.mark.parametrize(
    "words",
    [
        *((verb,) for verb in ("status", "logs", "metrics", "report", "diagnose", "wait")),
        *(("status", "latest"), ("status", "pair-2"), ("wait", "oth")),
    ],
    ids=" ".join,
)
def test_what_a_verb_reads(terminal, words):
    meant = "other" if "oth" in words else "pair-2"
    read = terminal(*words)
    assert read.exit_code == 0
    assert read.stderr.startswith(f"Job {meant}:\n") == ("pair-2" not in words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status", "pair"), "2 jobs begin with 'pair': pair-2, pair-1; write more of its name"),
        (("logs", "pear"), "there is no local job 'pear'"),
        (("download", "lat"), "there is no local job 'lat'"),
        (("compare", "oth", "pair"), "2 jobs begin with 'pair'"),
        (("status", "pair", "--session", "local"), "2 jobs begin with 'pair'"),
        (("rm",), "give the NAME of a job"),
        (("rm", "oth"), "there is no local job 'oth'"),
        (("rm", "latest"), "there is no local job 'latest'"),
        (("stop",), "give the NAME of a job"),
        (("stop", "oth"), "there is no local job 'oth'"),
        (("stop", "latest"), "there is no local job 'latest'"),
    ],
    ids=" ".join,
)
def test_what_is_not_guessed(terminal, words, said):
    refused = terminal(*words)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert len(list((terminal.home / "jobs").iterdir())) == 3


def test_without_jobs_there_is_no_newest(terminal, monkeypatch):
    monkeypatch.setitem(terminal.environment, "LAUNCHER_HOME", str(terminal.folder / "none"))
    refused = terminal("status")
    assert refused.exit_code == 2
    assert "there is no job yet: `launcher run` sends one" in refused.stderr

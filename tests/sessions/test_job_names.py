"""Names of jobs."""

import pytest

from launcher.client.sessions import check_name, job_name, new_job_name
from launcher.client.spec import InstanceGroup, JobSpec


@pytest.mark.parametrize(
    ("base", "name"),
    [
        pytest.param("train", "train-k3f9x2m7qv", id="plain"),
        pytest.param("my_train.v2", "my-train-v2-k3f9x2m7qv", id="illegal characters"),
        pytest.param("--x--", "x-k3f9x2m7qv", id="hyphens at the ends"),
        pytest.param("训练", "job-k3f9x2m7qv", id="nothing legal in it"),
        pytest.param("a" * 80, "a" * 52 + "-k3f9x2m7qv", id="too long"),
    ],
)
def test_a_name_is_made_legal_from_any_base(base, name):
    assert job_name(base, "k3f9x2m7qv") == name
    assert check_name(name) == []


@pytest.mark.parametrize(
    ("folder", "script", "base", "words"),
    [
        ("digits", "train.py", None, "digits-train"),
        ("train", "train.py", None, "train"),
        ("my_cool project", "train_resnet.py", None, "my-cool"),
        ("训练", "run-all-steps.sh", None, "run-all"),
        ("digits", "train.py", "what-the-user-has-chosen", "what-the-user-has-chosen"),
    ],
)
def test_a_default_name_has_at_most_three_words(tmp_path, folder, script, base, words):
    source = tmp_path / folder
    source.mkdir()
    spec = JobSpec(
        entry_point=script,
        source_dir=source,
        base_job_name=base,
        instance_groups=[InstanceGroup("train", "ml.c5.xlarge", 1)],
    )
    name, _, last = new_job_name(spec).rpartition("-")
    assert (name, len(last)) == (words, 10)
    assert check_name(f"{name}-{last}") == []


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        pytest.param("my_job", "my-job", id="underscore"),
        pytest.param("-job", "job", id="hyphen at the start"),
        pytest.param("a" * 64, "a" * 63, id="64 characters"),
        pytest.param("", "job", id="empty"),
        pytest.param("job\n", "job", id="line end"),
        pytest.param(3, "3", id="a number"),
    ],
)
def test_an_illegal_name_is_refused_with_a_legal_one(name, mend):
    (problem,) = check_name(name)
    assert repr(mend) in problem.fix
    assert check_name(mend) == []

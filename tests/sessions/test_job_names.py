"""Names of jobs."""

from datetime import datetime

import pytest

from launcher.client.sessions import check_name, job_name

NOW = datetime(2025, 11, 20, 23, 7, 5)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        pytest.param("train", "train-20251120-230705-3fa9", id="plain"),
        pytest.param("my_train.v2", "my-train-v2-20251120-230705-3fa9", id="illegal characters"),
        pytest.param("--x--", "x-20251120-230705-3fa9", id="hyphens at the ends"),
        pytest.param("训练", "job-20251120-230705-3fa9", id="nothing legal in it"),
        pytest.param("a" * 80, "a" * 42 + "-20251120-230705-3fa9", id="too long"),
    ],
)
def test_a_name_is_made_legal_from_any_base(base, name):
    assert job_name(base, NOW, "3fa9") == name
    assert check_name(name) == []


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

"""Where jobs are kept."""

import pytest

from launcher.client.request import build_bundle
from launcher.client.spec import JobSpec


@pytest.mark.long
def test_jobs_that_are_kept_in_the_source_folder_do_not_travel_with_the_next(tmp_path, monkeypatch):
    from launcher import Estimator

    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text("print('hello')\n")
    estimator = Estimator(
        entry_point="train.py", source_dir=tmp_path, instance_type="local", instance_count=1
    )
    before = build_bundle(JobSpec(entry_point="train.py", source_dir=str(tmp_path))).sha256
    estimator.fit(logs=False)
    after = build_bundle(JobSpec(entry_point="train.py", source_dir=str(tmp_path))).sha256
    assert after == before

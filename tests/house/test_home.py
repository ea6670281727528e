"""Where jobs are kept."""

import subprocess
import sys

import pytest

from launcher import LocalSession, PlatformError
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
    before = build_bundle(JobSpec(entry_point="train.py", source_dir=str(tmp_path))).files
    estimator.fit(logs=False)
    after = build_bundle(JobSpec(entry_point="train.py", source_dir=str(tmp_path))).files
    assert after == before


def test_a_home_folder_of_no_user_is_named_with_what_to_set(monkeypatch):
    monkeypatch.setenv("LAUNCHER_HOME", "~no-such-user/jobs")
    with pytest.raises(PlatformError, match=r"~no-such-user of .* set LAUNCHER_HOME to the folder"):
        LocalSession()


#: Asks for jobs as a user whom modes stop.
AS_ANOTHER_USER = """\
import os
from launcher import LocalSession, PlatformError
session = LocalSession("home")
if os.geteuid() == 0:
    os.setuid(65534)
try:
    session.list_training_jobs()
except PlatformError as error:
    print(error)
"""


def test_jobs_of_another_user_are_refused_in_words(tmp_path):
    jobs = tmp_path / "home" / "jobs"
    jobs.mkdir(parents=True)
    jobs.chmod(0)
    for folder in (tmp_path, tmp_path / "home"):
        folder.chmod(0o755)
    asked = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER], cwd=tmp_path, capture_output=True, text=True
    )
    jobs.chmod(0o700)
    assert asked.stdout.startswith(f"cannot read the jobs in {jobs}: Permission denied: "), asked
    assert asked.stderr == ""

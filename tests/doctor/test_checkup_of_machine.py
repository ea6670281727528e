"""launcher check: this machine and the job file."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from fake_engine import FakeEngine
from price_lists import TRAINING, csv_file, serving

import launcher
from launcher.client.catalogue import update_prices
from launcher.client.cli import main
from launcher.client.doctor import Level, job_file_checks, machine_checks, package_checks
from launcher.client.sessions import AwsSession, Isolation, LocalSession, obstacles
from launcher.client.spec import DataParallel, DataService, JobSpec, Mpi

ONE_HOST = "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"


@pytest.fixture
def job(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text("print('hello')\n")

    def write(text=ONE_HOST):
        path = tmp_path / "work" / "job.yaml"
        path.write_text(text)
        return path

    return write


def check(*arguments):
    return CliRunner().invoke(main, ["check", *map(str, arguments)], catch_exceptions=False)


def findings(result, part):
    found = json.loads(result.stdout)["findings"]
    return [(each["subject"], each["level"]) for each in found if each["part"] == part]


# The verb: each run asks a real torch, which takes its seconds ------------------------------------


@pytest.mark.long
def test_a_machine_without_an_account_runs_local_jobs(offline, job, tmp_path):
    result = check(job(ONE_HOST + "max_run: -1\n"), "--set", "max_run=60", "-o", "json")
    assert result.exit_code == 0, result.stdout
    answer = json.loads(result.stdout)
    assert answer["exit_code"] == 0
    assert {level for _, level in findings(result, "aws")} == {"warning"}
    assert findings(result, "job") == [("job.yaml", "ok")]
    assert set(answer["findings"][0]) == {"part", "subject", "level", "what", "where", "fix"}
    assert not (tmp_path / "home").exists()
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"train.py", "job.yaml"}


@pytest.mark.long
def test_a_person_reads_what_is_wrong_and_what_does_not_matter(offline, job):
    result = check(job(ONE_HOST + "max_run: -1\n"))
    assert result.exit_code == 2
    assert "AWS (only needed to submit to AWS)" in result.stdout
    assert "job.yaml:5" in result.stdout
    assert "1 problem is in the way." in result.stdout
    assert result.stderr == ""


@pytest.mark.slow
def test_with_cloud_the_lines_of_aws_count(offline, job):
    result = check(job(), "--cloud", "-o", "json")
    assert result.exit_code == 2
    assert ("credentials", "problem") in findings(result, "aws")
    assert ("job.yaml", "problem") in findings(result, "job")  # no image, role or output path


# The job file -------------------------------------------------------------------------------------


def of_job(path, *, cloud=False):
    spec, unreadable = job_file_checks.read(path, ())
    return unreadable or job_file_checks.check_job(
        path, spec, AwsSession() if cloud else LocalSession(), offline=cloud
    )


def test_every_problem_of_the_job_file_is_reported(offline, job):
    found = of_job(job(ONE_HOST + "max_run: -1\nhyperparametres: {a: 1}\n"))
    assert [finding.level for finding in found] == [Level.PROBLEM] * 2
    assert {finding.where.split()[0] for finding in found} == {"job.yaml:5", "job.yaml:6"}
    assert all(finding.fix for finding in found)


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_type_that_awss_list_no_longer_has_is_named(offline, job, monkeypatch, region):
    """The list of us-east-1 was read; no other one."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    with serving() as prices:
        prices.put(csv_file(TRAINING))
        update_prices(["us-east-1"], base_url=prices.address)
    gone = job(ONE_HOST.replace("local", "ml.p3.2xlarge"))
    for is_cloud in (True, False):
        found = [each for each in of_job(gone, cloud=is_cloud) if "price list" in each.what]
        is_named = is_cloud and region == "us-east-1"
        what = "AWS's price list of 2026-11-20 has no ml.p3.2xlarge in us-east-1"
        assert [(each.level, each.what) for each in found] == [(Level.WARNING, what)] * is_named


@pytest.mark.parametrize(
    ("service", "is_cloud", "level", "numbers"),
    [
        ("prefetch_bytes: 20000000000", True, Level.PROBLEM, "do not fit into its 16 GiB"),
        ("prefetch_bytes: 20000000000", False, Level.WARNING, "18.6 GiB of finished batches"),
        ("local_workers: 40", True, Level.WARNING, "40 workers of 512 MiB"),
        ("local_workers: 4", True, None, ""),
    ],
)
def test_a_host_without_the_memory_for_its_batches_is_reported(
    offline, job, service, is_cloud, level, numbers
):
    large = ONE_HOST.replace("local", "ml.g5.xlarge")
    found = of_job(job(f"{large}data_service: {{datasets: ['a:b'], {service}}}\n"), cloud=is_cloud)
    short = [each for each in found if "GiB" in each.what]
    assert [each.level for each in short] == ([level] if level else [])
    assert all(numbers in each.what and each.fix for each in short)


def test_a_job_file_that_is_checked_runs_no_code_of_its_tracking(offline, job, tmp_path):
    path = job(ONE_HOST + "tracking: {callback: 'tracker.py:log'}\n")
    code = "import pathlib\npathlib.Path(__file__).with_name('has_run').touch()\n"
    path.with_name("tracker.py").write_text(code + "def log(name, record): pass\n")
    assert [finding.level for finding in of_job(path)] == [Level.OK]
    path.with_name("tracker.py").write_text(code)
    [finding] = of_job(path)
    assert "has no log" in finding.what
    assert not path.with_name("has_run").exists()


def test_what_this_machine_cannot_do_of_a_job_is_reported(offline, job):
    found = of_job(job(ONE_HOST + 'inputs: {a: "file://absent", b: "s3://bucket/b"}\n'))
    assert [finding.level for finding in found] == [Level.PROBLEM] * 2
    assert "absent" in found[0].what
    assert "s3://bucket/b" in found[1].what


def test_fields_that_sagemaker_needs(offline, job):
    words = " ".join(finding.what for finding in of_job(job(), cloud=True))
    for field in ("image_uri", "role", "output_path"):
        assert field in words


def test_a_warning_of_the_rules_accompanies_a_valid_job(offline, job):
    text = ONE_HOST.replace("type: local", "type: ml.x9.large")
    assert [finding.level for finding in of_job(job(text))] == [Level.OK, Level.WARNING]


def test_a_job_file_that_is_not_there(offline, tmp_path):
    (finding,) = of_job(tmp_path / "absent.yaml")
    assert finding.level is Level.PROBLEM
    assert "launcher init" in finding.fix


# Its parts ----------------------------------------------------------------------------------------


def test_an_old_python_is_a_problem():
    assert machine_checks.check_python((3, 9)).level is Level.PROBLEM
    assert machine_checks.check_python((3, 10)).level is Level.OK


def test_the_place_of_jobs(monkeypatch, tmp_path):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "a" / "b"))
    finding = machine_checks.check_home()
    assert finding.level in (Level.OK, Level.WARNING)  # how much is free is the machine's
    assert str(tmp_path / "a" / "b") in finding.what
    assert not (tmp_path / "a").exists()


def test_a_place_that_is_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "file"))
    finding = machine_checks.check_home()
    assert finding.level is Level.PROBLEM
    assert "LAUNCHER_HOME" in finding.fix


def test_a_place_that_is_not_ours(monkeypatch):
    """/proc takes no files, whoever asks."""
    monkeypatch.setenv("LAUNCHER_HOME", "/proc/launcher")
    assert machine_checks.check_home().level is Level.PROBLEM


@pytest.fixture
def bare(tmp_path):
    """A Python that has Launcher's own needs and no torch: its folder of packages is ours."""
    import click
    import pathspec
    import yaml

    packages_folder = tmp_path / "packages"
    packages_folder.mkdir()
    for module in (click, pathspec, yaml):
        (packages_folder / module.__name__).symlink_to(os.path.dirname(module.__file__))  # noqa: PTH120
    source = os.path.dirname(launcher.__file__)  # noqa: PTH120
    (packages_folder / "launcher").symlink_to(source)
    return packages_folder


def test_torch_is_a_problem_only_for_a_job_that_needs_it(bare, tmp_path):
    program = (
        "import json\n"
        "from launcher.client.doctor import package_checks\n"
        "from launcher.client.spec import DataParallel, DataService, JobSpec\n"
        "plain = JobSpec(entry_point='a.py')\n"
        "jobs = [None, plain, plain.replace(distribution=DataParallel()),\n"
        "        plain.replace(data_service=DataService(datasets=['a:b']))]\n"
        "print(json.dumps([[f.level.value for f in package_checks.check(job)] for job in jobs]))\n"
    )
    run = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(bare)!r})\n{program}",
        ],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [
        ["warning", "warning"],
        ["warning", "warning"],
        ["problem", "warning"],
        ["warning", "problem"],
    ]


@pytest.mark.long
def test_mpirun_is_looked_for_when_a_job_needs_it(monkeypatch, tmp_path):
    job = JobSpec(entry_point="a.py", distribution=Mpi())
    monkeypatch.setenv("PATH", str(tmp_path))
    *_, absent = package_checks.check(job)
    assert (absent.subject, absent.level) == ("mpirun", Level.PROBLEM)
    (tmp_path / "mpirun").touch(mode=0o755)
    *_, there = package_checks.check(job)
    assert (there.level, there.what) == (Level.OK, str(tmp_path / "mpirun"))


def test_a_torch_that_cannot_be_imported(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12 is missing')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    job = JobSpec(entry_point="a.py", distribution=DataParallel())
    torch, numpy = package_checks.check(job)
    assert torch.level is Level.PROBLEM
    assert "libcudart.so.12 is missing" in torch.what
    assert numpy.level is Level.OK


@pytest.mark.long
def test_torch_and_numpy_as_they_are():
    pytest.importorskip("torch")
    job = JobSpec(
        entry_point="a.py", distribution=DataParallel(), data_service=DataService(datasets=["a:b"])
    )
    torch, numpy = package_checks.check(job)
    assert torch.level is numpy.level is Level.OK
    assert "CUDA" in torch.what


@pytest.mark.long
def test_torch_is_not_imported_by_the_side_that_asks(offline):
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom launcher.client.doctor.checkup import run_checks\nrun_checks(None)\n"
            "print('torch' in sys.modules, 'numpy' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        timeout=540,
        check=True,
    )
    assert run.stdout == "False False\n"


def test_every_isolation_is_there_and_process_works():
    found = obstacles()
    assert set(found) == set(Isolation)
    assert found[Isolation.PROCESS] is None


def test_an_engine_that_does_not_answer_is_named_beside_one_that_does(monkeypatch, tmp_path):
    FakeEngine(tmp_path, "docker", answers=[("version", 1, "Cannot connect to the daemon")])
    FakeEngine(tmp_path, "podman")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    by_subject = {finding.subject: finding for finding in machine_checks.check_isolations()}
    assert by_subject["isolation container"].level is Level.OK
    docker = by_subject["engine docker"]
    assert docker.what.startswith("docker does not answer: Cannot connect to the daemon; ")
    assert "engine podman" not in by_subject
    monkeypatch.setenv("LAUNCHER_ENGINE", "podman")
    assert "engine docker" not in {each.subject for each in machine_checks.check_isolations()}


def test_a_machine_without_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    by_subject = {finding.subject: finding for finding in machine_checks.check_isolations()}
    assert by_subject["isolation process"].level is Level.OK
    sandbox = by_subject["isolation sandbox"]
    assert sandbox.level is Level.WARNING
    assert "bwrap" in sandbox.what
    assert "apt-get install bubblewrap" in sandbox.fix
    assert "apt-get install bubblewrap" in by_subject["isolation network"].fix

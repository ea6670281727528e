"""The guides, followed as a reader does: their files are written, their commands run in turn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from snippets import ROOT, commands, snippets_of

pytestmark = pytest.mark.long

#: Commands of the pages that need AWS, or that show what another machine would print.
_ELSEWHERE = ("pip install", "--max-cost", "run job.yaml --dry-run", "status JOB", "logs JOB")
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


@pytest.fixture
def reader(tmp_path: Path):
    """Run a command line as a reader would; return what it printed."""
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "LAUNCHER_HOME": str(tmp_path / "home"),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }
    folder = tmp_path / "job"
    folder.mkdir()

    def run(line: str) -> str:
        ran = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"$ {line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    run.folder = folder
    return run


def follow(page: Path, reader) -> list[str]:
    """Write the files of a page, and run its commands; what each printed."""
    for language in ("python", "yaml"):
        for snippet in snippets_of(page, language):
            if name := _FILE.match(snippet.text):
                (reader.folder / name[1]).write_text(snippet.text)
    lines = [line for snippet in snippets_of(page, "console") for line in commands(snippet)]
    return [reader(line) for line in lines if not any(words in line for words in _ELSEWHERE)]


def test_i_have_a_torch_script(reader) -> None:
    one_host, two_hosts = follow(ROOT / "docs" / "guides" / "torch-script.md", reader)
    assert "epoch=2 loss=" in one_host
    assert "[Completed]" in one_host
    assert "epoch=2 loss=" in two_hosts
    assert "2 x ml.g4dn.xlarge" in two_hosts


def test_the_cpu_is_the_bottleneck(reader) -> None:
    (printed,) = follow(ROOT / "docs" / "guides" / "cpu-bottleneck.md", reader)
    assert "epoch=1 loss=" in printed
    assert re.search(r"Data +32 batches prepared \(algo-1 32\)", printed)


@pytest.mark.slow
def test_the_first_job_and_what_to_change_in_it(reader) -> None:
    _, init, check, run, again = follow(ROOT / "docs" / "first-job.md", reader)
    assert "job.yaml" in init
    assert "problem" not in check
    losses = re.findall("epoch=.*", run)
    assert len(losses) == 3
    assert losses == re.findall("epoch=.*", again)
    more = reader("launcher run first --local --set instance_groups.data_group.instance_count=2")
    assert losses == re.findall("epoch=.*", more)


def test_the_tests_of_ones_own_code(reader) -> None:
    (reader.folder / "train.py").write_text("print('trains')\n")
    (snippet,) = snippets_of(ROOT / "docs" / "reference" / "ci.md")
    (reader.folder / "test_own.py").write_text(snippet.text)
    assert "2 passed" in reader(f"{sys.executable} -m pytest -q -p no:cacheprovider test_own.py")

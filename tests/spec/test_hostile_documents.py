"""Job files that are made to cost: each is refused in words, with little time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import JobSpec, SpecError

_BOMB = "a0: &a0 x\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
DOCUMENTS = {
    "aliases of aliases": (_BOMB, "more than 20,000 values"),
    "a bomb of mappings": (
        "hyperparameters: &a0 {x: 1}\n"
        + "".join(f"b{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}\n" for n in range(1, 30)),
        "more than 20,000 values",
    ),
    "brackets": ("entry_point: " + "[" * 100_000, "more than 50 levels"),
    "braces": ("entry_point: " + "{a: " * 50_000, "more than 50 levels"),
    "indentation": (
        "".join(f"{' ' * n}a:\n" for n in range(900)),
        "more than 50 levels",
    ),
    "dashes": ("- " * 10_000, "more than 50 levels"),
    "aliases that nest": (
        "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5_000)),
        "more than 20,000 values",
    ),
    "a list of a million": ("a: [" + "1," * 250_000, "more than 20,000 values"),
    "5,000 digits": ("max_run: " + "9" * 5_000, "a number of 5,000 characters"),
    "hexadecimal digits": ("max_run: 0x" + "f" * 50_000, "a number of 50,002 characters"),
    "a key of 5,000 digits": ("? " + "9" * 5_000 + "\n: 1", "a number of 5,000 characters"),
    "a number by its tag": ("max_run: !!int " + "9" * 5_000, "a number of 5,000 characters"),
    "no number by its tag": ("max_run: !!int many", "'many' is no tag"),
    "no truth by its tag": ("use_spot_instances: !!bool perhaps", "'perhaps' is no tag"),
    "a date by its tag": ("entry_point: !!timestamp soon", "timestamp is not a plain value"),
    "bytes by their tag": ("entry_point: !!binary aGk=", "binary is not a plain value"),
    "a Python object": ("entry_point: !!python/object/apply:os.getpid []", "not a plain value"),
    "a Python name": ("entry_point: !!python/name:os.getpid x", "not a plain value"),
    "a Python module": ("!!python/module:os x: 1", "not a plain value"),
    "a tag of its own": ("entry_point: !secret x", "!secret is not a plain value"),
    "a set": ("entry_point: !!set {a, b}", "set is not a plain value"),
    "a value in itself": ("hyperparameters: &h {a: *h}", "the value contains itself"),
    "a list in itself": ("tags: &t [*t]", "the value contains itself"),
    "a long text": ("entry_point: " + "x" * 600_000, "more than 512 KiB"),
    "a mapping as a key": ("? {a: b}\n: c", "a key is not text"),
    "a NUL": ("entry_point: a\0b", "not YAML"),
    "an unknown alias": ("entry_point: *gone", "not YAML"),
    "two documents": ("a: 1\n---\nb: 2", "not YAML"),
}
#: Python, PyYAML and Launcher without any job are 40 MB; a second of a core is 1 s of CPU time.
MEMORY, SECONDS = 140 << 20, 3
_READ = r"""\
import re, resource, sys
from pathlib import Path
from launcher import JobSpec, SpecError
from launcher.client.spec import job_yaml
started = resource.getrusage(resource.RUSAGE_SELF)
try:
    JobSpec.from_yaml(Path(sys.argv[1]))
except SpecError as error:
    print(error)
ended = resource.getrusage(resource.RUSAGE_SELF)
used = ended.ru_utime - started.ru_utime
status = Path("/proc/self/status").read_text()
print("cpu", used, "kib", *re.findall(r"VmHWM:\s+(\d+)", status), file=sys.stderr)
"""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_hostile_document_is_refused_in_words(name: str) -> None:
    text, words = DOCUMENTS[name]
    before = resource.getrusage(resource.RUSAGE_SELF)
    with pytest.raises(SpecError) as raised:
        JobSpec.from_yaml(text + "\n")
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert words in str(raised.value)
    assert "object at 0x" not in str(raised.value)
    assert len(str(raised.value)) < 5_000
    assert after.ru_utime - before.ru_utime < SECONDS
    assert (after.ru_maxrss - before.ru_maxrss) * 1024 < 100 << 20


@pytest.mark.parametrize("name", ["aliases of aliases", "50 MB", "without an end"])
def test_a_hostile_file_needs_little_of_the_machine(name: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    if name == "without an end":
        file.symlink_to("/dev/zero")
    else:
        file.write_text(DOCUMENTS[name][0] if name in DOCUMENTS else "# x\n" * (50 << 18))
    program = tmp_path / "read.py"
    program.write_text(_READ)
    limit = f"ulimit -t {SECONDS * 5}; exec {sys.executable} {program} {file}"
    done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, check=True)
    said = "it is a named pipe, a socket or a device" if name == "without an end" else "no job file"
    assert said in done.stdout
    words = done.stderr.split()
    assert float(words[1]) < SECONDS
    assert int(words[3]) * 1024 < MEMORY

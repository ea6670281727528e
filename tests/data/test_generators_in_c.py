"""Generators of libraries in C are not seeded: by default, a loader finds that samples differ.

Forks go first: polars waits for ever in a fork of a process that has used it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from generators_in_c import Drawing
from made_hosts import MakeHosts

from launcher.data import DataLoader

OTHERS = ["cv2", "tokenizers", "numba", "pillow", "polars", "duckdb"]
FOUND = r"Drawing.* is not reproducible: .* prepared twice and differs in sample \d+, in array 1"
READER = """
from launcher.data import DataLoader
for library in LIBRARIES:
    for size in (4, 24):
        arguments = {"library": library}
        for _ in DataLoader("generators_in_c:Drawing", size, dataset_args=arguments, epochs=1):
            pass
"""

OF_LIBRARY = [pytest.mark.slow, pytest.mark.library("generators")]


@pytest.mark.parametrize(
    "library", ["sqlite", *(pytest.param(name, marks=OF_LIBRARY) for name in OTHERS)]
)
@pytest.mark.parametrize("options", [{"workers": 2}, {}, {"batch_size": 24}], ids=str)
def test_the_script_finds_them(
    library: str, options: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{library} {options}"
    list(DataLoader(Drawing(library), **{"batch_size": 4, "name": name, **options}))  # type: ignore[arg-type]
    (text,) = [each for each in caplog.messages if "not reproducible" in each]
    assert re.search(FOUND, text)


@pytest.mark.slow
@pytest.mark.library("generators")
@pytest.mark.parametrize("groups", [{"data": 2}, {"data": 1}, {"local_workers": 2}], ids=str)
def test_a_job_finds_them(make_hosts: MakeHosts, groups: dict[str, int]) -> None:
    libraries = ["sqlite", *OTHERS]
    files = {
        "generators_in_c.py": Path(__file__).with_name("generators_in_c.py").read_text(),
        "train.py": READER.replace("LIBRARIES", repr(libraries)),
    }
    hosts = make_hosts(files, datasets=(), **groups)
    hosts.run()
    events = [each for name in hosts.hosts for each in hosts[name].events("dataset_differs")]
    found = {str(each["dataset"]) for each in events}
    assert found == {f"generators_in_c:Drawing(library={name!r})" for name in libraries}

"""Shared memory is mapped where it may have huge pages, and goes when nobody refers to it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from launcher.data.memory import mapping

MIB_2 = 2 << 20
_NAME = "launcher-mapping-test"
#: One that is too small, one that is just large enough, and one with an end that is too small.
SIZES = (64 << 10, MIB_2, 2 * MIB_2 + (64 << 10))


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def descriptor(size: int) -> Iterator[int]:
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    yield descriptor
    os.close(descriptor)


def mapped() -> int:
    """How often the file is mapped here."""
    return Path("/proc/self/maps").read_text().count(_NAME)


def in_huge_pages() -> int:
    """How many bytes of the file are mapped here in huge pages."""
    found = re.findall(
        rf"memfd:{_NAME}.*?ShmemPmdMapped: +(\d+) kB", Path("/proc/self/smaps").read_text(), re.S
    )
    return 1024 * sum(map(int, found))


def test_all_mappings_are_of_one_memory(descriptor: int, size: int) -> None:
    memory, other = (mapping.map_shared(descriptor, size) for _ in range(2))
    assert len(memory) == size
    for place in (0, 1, size // 2, size - 1):
        memory[place] = place % 251 + 1
        assert other[place] == place % 251 + 1 == os.pread(descriptor, 1, place)[0]


def test_a_mapping_goes_with_what_refers_to_it(descriptor: int, size: int) -> None:
    before = Path("/proc/self/maps").read_text().count("\n")
    memory = mapping.map_shared(descriptor, size)
    mapping.make_huge(memory)
    array = np.frombuffer(memory, np.uint8)[1:]
    memory.release()  # as the pool does
    array[:] = 7
    assert mapped() > 0
    del array
    assert mapped() == 0
    assert Path("/proc/self/maps").read_text().count("\n") <= before + 1


def test_its_place_allows_for_huge_pages(descriptor: int, size: int) -> None:
    if 0 < mapping.huge_page_bytes() <= size:
        memory = mapping.map_shared(descriptor, size)
        assert mapping.address_of(memory) % mapping.huge_page_bytes() == 0


@pytest.mark.skipif(
    mapping.huge_page_bytes() != MIB_2
    or tuple(map(int, platform.release().split(".")[:2])) < (6, 1),
    reason="a kernel that gives no huge pages of 2 MiB when it is asked to",
)
def test_a_slab_has_huge_pages_where_it_is_made_and_where_it_is_shown(
    descriptor: int, size: int
) -> None:
    made = mapping.map_shared(descriptor, size)
    mapping.make_huge(made)
    whole = size // MIB_2 * MIB_2
    assert in_huge_pages() == whole
    assert bytes(made) == bytes(size)
    shown = mapping.map_shared(descriptor, size)
    made[::] = bytes([5]) * size
    assert bytes(shown) == bytes([5]) * size
    assert in_huge_pages() == 2 * whole


def test_a_kernel_without_them_maps_as_well(
    descriptor: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd").write_text("?")
    for source in (tmp_path / "absent", tmp_path / "odd"):
        assert mapping.huge_page_bytes(source) == 0
    monkeypatch.setattr(mapping, "_HUGE", 0)
    memory = mapping.map_shared(descriptor, size)
    mapping.make_huge(memory)
    memory[size - 1] = 3
    assert os.pread(descriptor, 1, size - 1) == b"\3"
    assert in_huge_pages() == 0


def test_what_cannot_be_mapped_is_an_error(descriptor: int, size: int) -> None:
    read_only = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    with pytest.raises(OSError, match=r"denied|cannot be mapped"):
        mapping.map_shared(read_only, size)
    os.close(read_only)
    assert mapped() == 0

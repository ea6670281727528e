"""The use of GPUs by NVML: a library with its functions, compiled here, as no GPU is expected."""

import shutil
import subprocess

import pytest

from launcher.runtime import GpuUsage, open_nvml

#: Three GPUs, of which one does not report its use, as with MIG (NVML_ERROR_NOT_SUPPORTED is 3).
SOURCE = """
typedef struct { unsigned gpu, memory; } use;
typedef struct { unsigned long long total, free, used; } memory;
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(long)(index + 1); return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, use *rates) {
    if ((long)device == 3) return 3;
    rates->gpu = (long)device == 1 ? 90 : 30; rates->memory = 1; return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *info) {
    info->total = 80ull << 30; info->used = (unsigned long long)(long)device << 32; return 0;
}
"""


@pytest.fixture
def build(tmp_path):
    """Compile the library; return its path."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler: apt-get install gcc")

    def build(*, init=0, count=3):
        source, library = tmp_path / "nvml.c", tmp_path / f"nvml-{init}-{count}.so"
        source.write_text(SOURCE)
        command = [compiler, "-shared", "-fPIC", f"-DINIT={init}", f"-DCOUNT={count}"]
        subprocess.run([*command, "-o", library, source], check=True, timeout=60)
        return str(library)

    return build


def test_the_use_is_of_all_gpus_that_report_it(build):
    nvml = open_nvml(build())
    assert nvml is not None
    assert nvml.usage() == GpuUsage(shares=(0.9, 0.3), memory_bytes=3 << 32)


def test_the_use_is_of_the_hosts_own_gpus(build):
    nvml = open_nvml(build())
    assert nvml is not None
    assert nvml.usage(["1"]) == GpuUsage(shares=(0.3,), memory_bytes=2 << 32)
    assert nvml.usage(["0", "GPU-5f3c"]) == nvml.usage()  # an identifier says no number
    assert nvml.usage([]) is None


def test_a_host_without_gpus_has_no_use(build):
    nvml = open_nvml(build(count=0))
    assert nvml is not None
    assert nvml.usage() is None


def test_without_a_driver_there_is_no_nvml(build):
    assert open_nvml(build(init=9)) is None  # NVML_ERROR_DRIVER_NOT_LOADED
    assert open_nvml("libnvidia-ml-that-is-not-here.so") is None
    assert open_nvml("libc.so.6") is None

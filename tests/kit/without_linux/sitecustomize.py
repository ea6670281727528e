"""A machine without Linux, as far as Python programs can see: first on PYTHONPATH.

There is no /proc, no name of an abstract socket, and none of the functions that macOS has not.
"""

import os
import resource
import sys
import time
import types

_ABSENT = {
    os: (
        *("copy_file_range", "eventfd", "fdatasync", "getxattr", "listxattr", "memfd_create"),
        *("pidfd_open", "pipe2", "posix_fadvise", "posix_fallocate", "removexattr", "setns"),
        *("sched_getaffinity", "sched_setaffinity", "sendfile", "setxattr", "splice", "unshare"),
        *("waitid", "O_PATH", "O_TMPFILE"),
    ),
    resource: ("prlimit",),
    time: ("CLOCK_BOOTTIME",),
}
_NOT_IN_LIBC = {"mount", "prctl", "setns", "umount2", "unshare"}


def _is_in_proc(path: object) -> bool:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return isinstance(path, str) and (path == "/proc" or path.startswith("/proc/"))


def _refuse(event: str, arguments: tuple) -> None:
    if event in ("open", "os.listdir", "os.scandir") and _is_in_proc(arguments[0]):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])
    if event == "ctypes.dlsym" and arguments[1] in _NOT_IN_LIBC:
        raise AttributeError(f"dlsym: symbol not found: {arguments[1]}")
    if event == "socket.bind" and arguments[1][:1] in ("\0", b"\0"):
        raise FileNotFoundError(2, "No such file or directory")


_stat = os.stat


def _stat_outside_proc(path, *arguments, **options):
    if _is_in_proc(os.fspath(path) if isinstance(path, os.PathLike) else path):
        raise FileNotFoundError(2, "No such file or directory", path)
    return _stat(path, *arguments, **options)


for _module, _names in _ABSENT.items():
    for _name in _names:
        if hasattr(_module, _name):
            delattr(_module, _name)
os.stat = _stat_outside_proc
sys.addaudithook(_refuse)
sys.platform = "darwin"
# urllib imports it on macOS.
sys.modules["_scproxy"] = types.ModuleType("_scproxy")
vars(sys.modules["_scproxy"]).update(_get_proxies=dict, _get_proxy_settings=dict)

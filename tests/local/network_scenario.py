"""Jobs of two hosts in isolation `network`; prints what was found.

A program of its own, for standard library and launcher only, so that any user can run it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

from bench import Bench, processes_mentioning
from scenario import print_report
from waiting import wait_until

from launcher.client.sessions import JobFolder, network_faults

SCRIPT = """
import threading

def answer_of(address, port):
    # Whoever listens there says their name.
    while True:
        try:
            with socket.create_connection((address, port)) as connection:
                return connection.makefile().readline().strip()
        except ConnectionRefusedError:
            time.sleep(0.02)

def error_of(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__, error.errno
    return None, None

def serve(address, port, name):
    # The event is set when somebody was told the name.
    told = threading.Event()
    server = socket.create_server((address, port))
    def attend():
        while True:
            connection, _ = server.accept()
            connection.sendall(name.encode() + b"\\n")
            connection.close()
            told.set()
    threading.Thread(target=attend, daemon=True).start()
    return told

peers = me["hosts"]
other = peers[1 - peers.index(host)]
serve("", 6000, host)
serve("127.0.0.1", 6001, "loopback of " + host)
machine_address, machine_port = sys.argv[1], int(sys.argv[2])
began = time.monotonic()
report = {
    "interface": me["network_interface_name"],
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
    "devices": sorted(os.listdir("/sys/class/net")),
    "addresses": {name: socket.gethostbyname(name) for name in peers},
    "wildcard": answer_of(other, 6000),
    "loopback": answer_of("127.0.0.1", 6001),
    "machine_loopback": error_of(lambda: socket.create_connection(("127.0.0.1", machine_port))),
    "machine": error_of(lambda: socket.create_connection((machine_address, machine_port))),
    "outside": error_of(lambda: socket.create_connection(("203.0.113.1", 80), timeout=5)),
    "unknown_name": error_of(lambda: socket.getaddrinfo("no-such-host.example.com", 80))[0],
    "nameless": socket.getnameinfo(("::ffff:10.0.0.1", 80), socket.NI_NUMERICSERV)[0],
    "seconds": time.monotonic() - began,
    "user": os.getuid(),
    "hostname": socket.gethostname(),
    "variables": [name for name in os.environ if name.startswith("LAUNCHER_HOST_A")
                  or name == "LAUNCHER_PORT_BASE"],
}
(ml / "model" / "weights").write_text("w")
print(json.dumps(report), flush=True)
# Both must have been answered before one of them leaves.
told = serve("", 6002, "done")
answer_of(other, 6002)
told.wait()
"""

HEAR = """
def leave():
    (ml / "model" / "saved").write_text("by the handler")
    print("saved")
    sys.exit(0)
on_sigterm(leave)
escape()
seen = None
while True:
    cable = Path("/sys/class/net/eth0/carrier").read_text().strip()
    if cable != seen:
        print("cable", cable)
    seen = cable
    time.sleep(0.01)
"""


def run(folder: Path) -> dict[str, object]:
    bench = Bench(folder, "network")
    with socket.create_server(("", 0)) as machine:
        request = bench.request(SCRIPT, hosts=2)
        words = [_own_address(), str(machine.getsockname()[1])]
        request["AlgorithmSpecification"]["ContainerArguments"] = words
        bench.session.create_training_job(**request)
        description = bench.end_of()
    for name in ("long", "orphaned"):
        bench.start(HEAR, name=name, hosts=2)
        bench.wait_for_line("cable 1", name=name, hosts=2)
    network_faults.cut(JobFolder(bench.job_folder("long")), "algo-2")
    bench.wait_for_line("cable 0", name="long")
    network_faults.restore(JobFolder(bench.job_folder("long")), "algo-2")
    wait_until(lambda: bench.lines("long")["algo-2"].count("cable 1") == 2)
    bench.stop("long")
    stopped = bench.end_of("long")
    for pid, command in processes_mentioning(str(bench.job_folder("orphaned"))).items():
        if "launcher.client.sessions.local.job.platform_process" in command:
            os.kill(pid, signal.SIGKILL)
    model = bench.output / "job" / "output" / "model.tar.gz"
    tree = bench.job_folder() / "hosts" / "algo-1" / "ml" / "model" / "weights"
    return {
        "user": os.getuid(),
        "status": description["TrainingJobStatus"],
        "reason": description.get("FailureReason"),
        "isolation": description["LocalIsolation"],
        "hosts": {host: json.loads(lines[-1]) for host, lines in bench.lines().items()},
        "owners": [path.stat().st_uid for path in (model, tree)],
        "stopped": stopped["TrainingJobStatus"],
        "said": bench.lines("long"),
        "orphaned": bench.end_of("orphaned")["TrainingJobStatus"],  # no process of it is left
    }


def _own_address() -> str:
    """An address of this machine that is not its loopback, where it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # nothing is sent
        except OSError:
            return "203.0.113.2"
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    print_report("network", run)

"""Strangers and saboteurs at the ports of a running job: it ends well, with the same batches."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from batches import bytes_of, start_of
from hosts import Hosts
from made_hosts import MakeHosts
from programs import PIPELINE, READER

from launcher.data.batches import structure, wire
from launcher.data.control import messages as m
from launcher.errors import AuthenticationError, LauncherError
from launcher.runtime import jsonl_socket
from launcher.shared import Ports

#: Seconds between two attacks of a kind: one worker has to get through, on a machine of two CPUs.
_RHYTHM = 0.1

SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.02)\n        noise = ")
FILES = {"pipeline.py": SLOW, "train.py": READER}


class Attack(threading.Thread):
    """Does the same thing again and again while a job runs."""

    def __init__(self, hosts: Hosts, once: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._trainer = hosts["algo-2"].process
        self._once = once
        self.count = 0
        self.last: BaseException | None = None
        self.unexpected: BaseException | None = None

    def run(self) -> None:
        try:
            while self._trainer is not None and self._trainer.poll() is None:
                try:
                    self._once()
                    self.count += 1
                except (
                    OSError,
                    LauncherError,
                ) as error:  # before the port is open, after it closed
                    self.last = error
                threading.Event().wait(_RHYTHM)
        except BaseException as error:
            self.unexpected = error
            raise


@pytest.mark.long
def test_strangers_and_a_saboteur_change_nothing(make_hosts: MakeHosts) -> None:
    calm = make_hosts({**FILES, "pipeline.py": PIPELINE}, train=1)
    calm.run()

    hosts = make_hosts(FILES, data=1, train=1, checksums=True)
    hosts.start()
    ports, address = Ports(hosts.port_base), hosts.addresses["algo-2"]
    attacks = {
        f"{strange.__name__} {port}": Attack(hosts, partial(strange, (address, port)))
        for strange in STRANGERS
        for port in (ports.dispatcher, ports.receiver, ports.coordination)
    }
    saboteur = Saboteur(hosts)
    attacks["sabotages"] = Attack(hosts, saboteur.work)
    for attack in attacks.values():
        attack.start()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    for attack in attacks.values():
        attack.join(30)
    while HELD:
        HELD.pop().close()

    assert hosts.hashes() == calm.hashes()
    assert {name: a.unexpected for name, a in attacks.items() if a.unexpected} == {}
    assert {name: attack.last for name, attack in attacks.items() if not attack.count} == {}
    assert "Traceback" not in hosts.output(), hosts.output()
    events = hosts["algo-2"].events
    refused = {event["port"] for event in events("connection_rejected")}
    assert refused >= {"dispatcher", "receiver", "coordination"}
    assert {event["by_host"] for event in events("batch_damaged")} == {"saboteur"}
    assert hosts.processes() == []


@pytest.mark.long
def test_a_run_whose_batches_come_damaged_again_and_again_fails(make_hosts: MakeHosts) -> None:
    slower = PIPELINE.replace("noise = ", "import time; time.sleep(0.1)\n        noise = ")
    hosts = make_hosts({**FILES, "pipeline.py": slower}, data=1, train=1, checksums=True)
    hosts.start()
    Saboteur(hosts).damage(10)
    assert hosts.wait()["algo-2"] == 1, hosts.output()
    assert "10 batches were refused by this host, the last from the worker saboteur/0/" in (
        hosts["algo-2"].failure or ""
    )
    assert len(hosts["algo-2"].events("batch_damaged")) == 10
    assert hosts.processes() == []


# Who does not know the token -------------------------------------------------------------------


def connecting(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=5)


def scans_the_port(address: tuple[str, int]) -> None:
    connecting(address).close()


def resets_the_connection(address: tuple[str, int]) -> None:
    with connecting(address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"x")


def sends_garbage(address: tuple[str, int]) -> None:
    with connecting(address) as connection:
        connection.sendall(random.Random(1).randbytes(1 << 16))


def speaks_http(address: tuple[str, int]) -> None:
    with connecting(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.recv(100)


def guesses_the_token(address: tuple[str, int]) -> None:
    with pytest.raises(AuthenticationError):
        jsonl_socket.connect(address, "a guess", timeout=0, peer="the job")


def takes_its_time(address: tuple[str, int]) -> None:
    """A handshake of one byte, and the rest never."""
    HELD.append(connecting(address))
    HELD[-1].sendall(b"0")
    if len(HELD) > 60:
        HELD.pop(0).close()


HELD: list[socket.socket] = []
STRANGERS = [
    *(scans_the_port, resets_the_connection, sends_garbage, speaks_http, guesses_the_token),
    takes_its_time,
]


# Who knows the token ---------------------------------------------------------------------------


class Saboteur:
    """A worker that takes a lease, sends anything but the batch, and is gone."""

    def __init__(self, hosts: Hosts) -> None:
        self._token = hosts.token
        self._address = hosts.addresses["algo-2"]
        self._ports = Ports(hosts.port_base)
        self._name = f"saboteur/0/{os.getpid()}"
        self._sent = 0
        self._done = False

    def work(self) -> None:
        """Send each frame once, though it is called again: runs that are damaged often end."""
        if self._done:
            return
        with self._employed() as (control, lease):
            for data in sabotage(self._name, lease.run, lease.steps[0])[self._sent :]:
                self._send(data)
                self._sent += 1
            control.send({"type": "Heartbeat", "seconds": 0.1, "done": {lease.run: {"a": []}}})
        self._done = True

    def damage(self, count: int) -> None:
        """Send batches that no other worker has sent, none as its checksum says."""
        tree, arrays = structure.disassemble({"image": np.zeros(1000)})
        with self._employed(patience=20) as (_, lease):
            for step in range(1000, 1000 + count):
                frame = wire.WireFrame.pack(
                    lease.run, step, self._name, tree, arrays, checksums=True
                )
                self._send(bytes_of(frame)[:-5] + b"other")

    @contextlib.contextmanager
    def _employed(
        self, patience: float = 5
    ) -> Iterator[tuple[jsonl_socket.LineConnection, m.Lease]]:
        """A worker's connection to the dispatcher, and what it is leased first."""
        dispatcher = self._connect(self._ports.dispatcher, patience)
        dispatcher.settimeout(10)
        with contextlib.closing(jsonl_socket.LineConnection(dispatcher)) as control:
            control.send(m.RegisterWorker(worker=self._name, pid=os.getpid()).encode())
            yield control, self._next_lease(control)

    @staticmethod
    def _next_lease(control: jsonl_socket.LineConnection) -> m.Lease:
        while (raw := control.receive()) is not None:
            if isinstance(message := m.decode(raw), m.Lease):
                return message
        raise ConnectionError("the end, and no lease")

    def _connect(self, port: int, patience: float = 5) -> socket.socket:
        address = (self._address, port)
        return jsonl_socket.connect(address, self._token, timeout=patience, peer="the job")

    def _send(self, data: bytes) -> None:
        with self._connect(self._ports.receiver) as connection:
            connection.settimeout(10)
            with contextlib.suppress(ConnectionError):  # it may hang up before it has read all
                connection.sendall(data)
                with contextlib.suppress(OSError):  # ENOTCONN: it has hung up before
                    connection.shutdown(socket.SHUT_WR)
                while connection.recv(100):
                    pass


def sabotage(name: str, run: str, step: int) -> list[bytes]:
    """Frames that are damaged, cut, too large, of no run, or none."""
    tree, arrays = structure.disassemble({"image": np.zeros(1000), "label": np.zeros(3)})
    frame = wire.WireFrame.pack(run, step, name, tree, arrays, checksums=True)
    whole = bytes_of(frame)
    start = partial(start_of, run.encode(), name.encode(), step=step)
    unknown = partial(start_of, b"no such run", name.encode(), step=step)
    return [
        whole[:-5] + b"other",
        whole[: len(whole) // 2],
        whole[: wire.START_BYTES + 3],
        whole[: wire.START_BYTES - 3],
        b"LDF9" + whole[4:],
        start(payload=1 << 63),
        start(payload=1 << 40) + bytes(1 << 20),
        start(payload=10, total=1 << 40) + bytes(10),
        start(payload=10, total=9) + bytes(10),
        start(payload=10, offset=10, total=10) + bytes(10),
        unknown(payload=1 << 40) + bytes(1 << 20),
        unknown(payload=10, total=1 << 40) + bytes(10),
        start(step=1 << 60, payload=10, content=10) + bytes(10),
        start_of(b"\xff\xfe", name.encode(), payload=4) + bytes(4),
        start(lengths=(65535, 65535), payload=4) + bytes(4),
        random.Random(2).randbytes(100_000),
    ]

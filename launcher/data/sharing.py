"""The way of a local worker's batches: into the receiver's own shared memory, with one copy."""

from __future__ import annotations

import socket

from launcher.data import messages as m
from launcher.data.slabs import SlabViews
from launcher.data.wire import Frame, read_header
from launcher.runtime import lines

_MESSAGE_BYTES = 65536
_MOST_DESCRIPTORS = 16


class Sharing:
    """Hands frames to the receiver of this host; for one thread."""

    def __init__(self, receiver: str) -> None:
        self._receiver = receiver
        self._socket: socket.socket | None = None

    def send(self, frame: Frame) -> None:
        """Hand a frame over, if it is wanted; after OSError, the next begins anew."""
        try:
            if self._socket is None:
                self._connect()
            header = read_header(frame.header)
            slab = self._borrow(frame)
            if slab is None:
                return
            frame.copy_to(self._views.payload(slab, frame.payload_bytes))
            self._say(
                m.Filled(
                    run=frame.run,
                    step=frame.step,
                    worker=header.worker,
                    slab=slab,
                    size=frame.payload_bytes,
                    content=header.content_bytes,
                )
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(f"\0{self._receiver}")
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        self._views = SlabViews(released=lambda _: None)  # the receiver knows when it is filled

    def _borrow(self, frame: Frame) -> int | None:
        """A slab for the frame; None when nobody wants it any more."""
        self._say(m.NeedSlab(run=frame.run, step=frame.step, size=frame.payload_bytes))
        while True:
            message = self._hear()
            if isinstance(message, m.Forget):
                self._views.forget(message.slab)
            elif isinstance(message, m.Lent):
                if message.new and message.slab is not None:
                    self._views.add(message.slab, self._descriptors.pop(0))
                return message.slab

    def _say(self, message: m.Message) -> None:
        assert self._socket is not None  # made by send
        self._socket.sendall(lines.encode(message.encode()))

    def _hear(self) -> m.Message:
        assert self._socket is not None  # made by send
        while (end := self._buffer.find(b"\n")) < 0:
            data, descriptors, _, _ = socket.recv_fds(
                self._socket, _MESSAGE_BYTES, _MOST_DESCRIPTORS
            )
            if not data:
                raise ConnectionError("the receiver of this host is gone")
            self._buffer += data
            self._descriptors += descriptors
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return m.decode(lines.decode(line))

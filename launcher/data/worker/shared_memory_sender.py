"""Deliver a local worker's batches into the receiver's shared memory, with one copy."""

from __future__ import annotations

import collections

from launcher.data.batches import Header, WireFrame
from launcher.data.control import messages as m
from launcher.data.memory import ReceiverClient, SlabViews


class SharedMemorySender:
    """Hands frames to the receiver of this host. For use by one thread."""

    def __init__(self, receiver: str) -> None:
        self._receiver = receiver
        self._client: ReceiverClient | None = None

    def send(self, frame: WireFrame) -> None:
        """Hand a frame over if it is wanted; after OSError the next call reconnects."""
        try:
            if self._client is None:
                # Released views are not reported: the receiver is notified when a slab is filled.
                self._views = SlabViews(released=collections.deque(maxlen=0))
                self._client = ReceiverClient(self._receiver, self._views)
            self._hand_over(frame, self._client)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection to the receiver."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _hand_over(self, frame: WireFrame, client: ReceiverClient) -> None:
        header = frame.header
        slab = _request_slab(header, client)
        if slab is None:
            return
        frame.copy_to(self._views.payload(slab, header.payload_bytes))
        client.send(
            m.SlabFilled(
                run=header.run,
                step=header.step,
                worker=header.worker,
                slab=slab,
                size=header.payload_bytes,
                content=header.content_bytes,
            )
        )


def _request_slab(header: Header, client: ReceiverClient) -> int | None:
    """Return the slab for a batch, or None if the batch is no longer wanted."""
    client.send(m.NeedSlab(run=header.run, step=header.step, size=header.payload_bytes))
    while not isinstance(answer := client.receive(), m.SlabLent):
        pass  # a Forget message, handled by the client
    return answer.slab

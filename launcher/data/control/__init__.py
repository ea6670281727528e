"""Messages between the processes of the data service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.control import messages
    from launcher.data.control.connection import Control
    from launcher.data.control.message_fields import host_of, slot_of
    from launcher.data.control.messages import (
        Message,
        cut,
        decode,
        decode_plan,
        encode_plan,
        from_line,
    )

__getattr__ = open_door(__name__)

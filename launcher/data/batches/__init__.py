"""Batches and their bytes: collated, disassembled, framed for the network and rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.batches import structure, tensors, wire
    from launcher.data.batches.class_names import (
        find_class,
        is_own,
        reference_to,
        running_script,
        script_module,
    )
    from launcher.data.batches.codecs.codec_registry import register_codec
    from launcher.data.batches.collation import (
        LARGE_BATCH,
        batch_memory,
        collate,
        torch_threads,
    )
    from launcher.data.batches.plain_batch import copy_plain
    from launcher.data.batches.structure import Array, Assembly, PlainBatch, Tree, disassemble
    from launcher.data.batches.tensors import as_arrays
    from launcher.data.batches.wire import Header, WireFrame

__getattr__ = open_door(__name__)

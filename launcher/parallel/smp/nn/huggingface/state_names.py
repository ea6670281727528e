"""The two translations of a model's state, which change nothing without distributed layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_hugging_face(
    state_dict: Mapping[str, Any], max_seq_len: int | None = None
) -> dict[str, Any]:
    """Return a state with Hugging Face's names, which it has already.

    max_seq_len: accepted; smp needs it for the causal masks of its distributed layers.
    """
    return dict(state_dict)


def from_hugging_face(
    state_dict: Mapping[str, Any], max_seq_len: int | None = None
) -> dict[str, Any]:
    """Return a state with the names that smp.DistributedModel has: Hugging Face's.

    max_seq_len: accepted, as older scripts pass it.
    """
    return dict(state_dict)

"""A model, its profile on a GPU, and the cuts that are decided from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from launcher.parallel.partitioning import PartitionQuestion, decide
from launcher.parallel.profiling import Profile, Sample, profile
from launcher.shared import Fingerprint, Link, PartitionFile
from partition_parts.inside.models import gpt
from partition_parts.inside.subject import Subject

PRECISION = "bf16"


def subject_of(told: Mapping[str, Any]) -> Subject:
    """Return the model and its microbatches."""
    return gpt(**told["shape"])


def profiled(subject: Subject, device: torch.device) -> Profile:
    """Measure the model on a GPU."""
    target = subject.batch(subject.samples)[1]
    sample = Sample(arguments=subject.example, target=target, loss=subject.loss)
    return profile(subject.make(), sample, device=device, precision=PRECISION)


def decided(costs: Profile, link: Link, **question: Any) -> PartitionFile:
    """Decide the cuts for the fastest step."""
    unnamed = Fingerprint(parameters={}, calls=(), example=(), torch=torch.__version__)
    return decide([costs], unnamed, link, PartitionQuestion(precision=PRECISION, **question))

"""Job names: legal for SageMaker, unique, and short."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from launcher.client.spec import JobSpec
from launcher.errors import Problem

#: TrainingJobName in the CreateTrainingJob API: 1 to 63 characters, no hyphen at either end.
NAME_LIMIT = 63
_LEGAL = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
#: Words of a base that nobody has chosen.
_WORDS = 2
#: A last word has 50 random bits, in letters and digits that are not mistaken for each other.
_LETTERS, _LENGTH = "0123456789abcdefghjkmnpqrstvwxyz", 10
_ILLEGAL_RUN = re.compile(r"[^a-zA-Z0-9]+")


def new_job_name(spec: JobSpec) -> str:
    """Return a unique name for one run of a spec: its base, and a word drawn at random.

    The base is that of the spec, else the first two words of the source's folder and the script.
    Among a million jobs of one base, the odds that two names collide are 1 in 2,252.
    """
    module = (spec.task or "").partition(":")[0]
    script = Path(spec.entry_point).stem or module or "job"
    names = dict.fromkeys((_folder(spec), script))
    words = [word for name in names for word in _ILLEGAL_RUN.split(name) if word]
    base = spec.base_job_name or "-".join(words[:_WORDS])
    return job_name(base, "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH)))


def _folder(spec: JobSpec) -> str:
    """Return the name of a source's folder, where that is one of this machine."""
    source = spec.source_dir
    return "" if not source or "://" in str(source) else Path(source).resolve().name


def job_name(base: str, word: str) -> str:
    """Return a legal name made of any base and a last word.

    >>> job_name("my_train", "k3f9x2m7qv")
    'my-train-k3f9x2m7qv'
    """
    return f"{_legal(base)[: NAME_LIMIT - 1 - len(word)].rstrip('-')}-{word}"


def _numbered(name: str, number: int) -> str:
    """Return the name of an attempt at a job, "rings-2".

    >>> _numbered("rings", 2)
    'rings-2'
    """
    tail = f"-{number}"
    return name[: NAME_LIMIT - len(tail)].rstrip("-") + tail


def numbered_names(name: str, is_used: Callable[[str], bool], first: int = 2) -> Iterator[str]:
    """Yield the names of further attempts at a job, from a number on, but those of other jobs."""
    numbered = (_numbered(name, number) for number in itertools.count(first))
    yield from (each for each in numbered if not is_used(each))


def check_name(name: object) -> list[Problem]:
    """Return the problems with a job's name; empty if it is legal."""
    if isinstance(name, str) and _LEGAL.fullmatch(name) and len(name) <= NAME_LIMIT:
        return []
    return [
        Problem(
            what=f"{name!r} is not a legal job name (letters, digits and inner hyphens, "
            f"at most {NAME_LIMIT} characters)",
            where="the job's name",
            fix=f"use {_legal(str(name))[:NAME_LIMIT].rstrip('-')!r}",
        )
    ]


def _legal(base: str) -> str:
    return _ILLEGAL_RUN.sub("-", base).strip("-") or "job"
